"""Round trips of a connection: what a window lets it send, and how windows grow (compiled)."""

import numpy as np

from testbed.fluid import tcp
from testbed.fluid.inner import inner
from testbed.fluid.quiet import known_ahead, known_back, known_wait
from testbed.fluid.rates import touch
from testbed.fluid.state import AVOIDANCE, FINAL, State, Table


@inner
def last_leg(state: State, one: int) -> float:
    """From the last byte's departure to its arrival: propagation, and the queues on the way.

    What a window let go has still to wait behind others; what a full link let go has done so. First
    come, first served: what was let go at once ends no sooner than behind all that was there then,
    at the rate of the line. The time in which it shared a port with others counts to that.
    """
    c, w, x = state.c, state.w, state.x
    total = c.delay[one]
    if c.phase[one] == FINAL:
        ends = c.began[one] + c.wait[one] + c.burst[one] / line_rate(state, one)
        return total + min(c.wait[one], max(0.0, ends - x.clock[0]))
    if c.rate[one] >= c.cap[one]:
        return total + c.wait[one]
    for hop in range(c.bottleneck[one] + 1, c.hops[one]):
        total += known_wait(c, w, x, c.path[one, hop], c.level[one, hop], one)
    return total


@inner
def begin_final(c: Table, one: int, now: float) -> None:
    """All that is left fits into the window: it is let go at once."""
    c.phase[one] = FINAL
    c.began[one] = now
    c.burst[one] = c.left[one]


@inner
def begin_round(state: State, one: int) -> None:
    """A window's worth may be sent in the coming round trip; the rest of the flow if it fits."""
    c, w, x = state.c, state.w, state.x
    rtt = 2.0 * c.delay[one] + known_ahead(c, w, x, one) + known_back(c, w, x, one)
    c.least_rtt[one] = min(c.least_rtt[one], rtt)
    if c.left[one] <= c.window[one]:
        begin_final(c, one, x.clock[0])
        c.cap[one] = np.inf
        c.round_end[one] = np.inf
        return
    c.cap[one] = c.window[one] / rtt
    c.round_end[one] = x.clock[0] + rtt


@inner
def end_round(state: State, one: int) -> None:
    """All of a window is acknowledged: slow start doubles it, unless HyStart has seen enough."""
    c, w, x = state.c, state.w, state.x
    window, rate = c.window[one], c.rate[one]
    line = line_rate(state, one)
    rtt = window / c.cap[one]
    if rate <= 0.0:
        c.round_end[one] = x.clock[0] + rtt  # it has not been its turn yet
        return
    if rate < 0.999 * c.cap[one]:
        if c.bottleneck[one] > 0:
            line = rate  # packets of other hosts are in between, and so are the acknowledgements
        rtt = max(rtt, window / rate)
    end = 0.0
    if c.law[one] != tcp.RENO:
        end = tcp.slow_start_end(window, line, rtt, c.least_rtt[one])
    if not c.tuned[one] and max(end, 2.0 * window) >= c.receive[one]:
        end = c.receive[one] if end == 0.0 else min(end, c.receive[one])
    if end > 0.0 or 2.0 * window >= c.threshold[one]:
        c.window[one] = min(end if end > 0.0 else 2.0 * window, c.threshold[one])
        c.threshold[one] = c.window[one]
        c.phase[one] = AVOIDANCE
        c.round_end[one] = np.inf
    else:
        c.window[one] = window + min(window, rate * rtt)
        begin_round(state, one)
    # The cap has changed: its links are to be settled.
    for hop in range(c.hops[one]):
        touch(w, x, c.path[one, hop])


@inner
def line_rate(state: State, one: int) -> float:
    c, w = state.c, state.w
    rate = np.inf
    for hop in range(c.hops[one]):
        rate = min(rate, w.capacity[c.path[one, hop]])
    return rate
