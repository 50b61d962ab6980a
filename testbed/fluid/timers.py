"""TCP's timers: a connection that waits for one has left its links (compiled).

A SYN or its answer, a tail that nothing reports, a window of which nothing arrived: each costs a
timer, and what is then sent again can be lost again, which costs twice as long.
"""

import numpy as np
from numba import njit

from testbed.fluid import tcp
from testbed.fluid.heap import schedule
from testbed.fluid.held import Held
from testbed.fluid.inner import inner
from testbed.fluid.losses import (
    PROBED,
    REORDERED,
    REPORTED,
    TIMED_OUT,
    burst_lost,
    miss,
    packet_lost,
)
from testbed.fluid.quiet import wait_ahead, wait_back
from testbed.fluid.rates import join, leave
from testbed.fluid.rounds import begin_round, line_rate
from testbed.fluid.state import (
    ANSWER,
    FINAL,
    HANDSHAKE,
    ISOLATES,
    LOST,
    OVERFLOWS,
    RTO_MIN,
    SLOW_START,
    TIMERS,
    State,
)

MOST_TRIES = 15  # as often a packet is sent again


@inner
def send_syn(state: State, one: int) -> None:
    """The handshake costs a round trip, and on both ways what waits there then."""
    state.c.quickest[one] = 2.0 * state.c.delay[one]
    shake(state, one, HANDSHAKE, wait_ahead(state.c, state.w, state.x, one))


@inner
def send_answer(state: State, one: int) -> None:
    shake(state, one, ANSWER, wait_back(state.c, state.w, state.x, one))


@inner
def shake(state: State, one: int, phase: int, wait: float) -> None:
    c, w, x = state.c, state.w, state.x
    if packet_lost(c, w, x, one, phase == ANSWER, wait):
        wait_for_answer(state, one)
        return
    c.phase[one] = phase
    c.quickest[one] += wait
    schedule(state.q, x, one, x.clock[0] + small_leg(state, one, wait))


@inner
def small_leg(state: State, one: int, wait: float) -> float:
    """How long a packet without data takes: it comes after what it has waited for, not with it."""
    last = tcp.SMALL_FRAME / line_rate(state, one) if wait > 0.0 else 0.0
    return state.c.delay[one] + wait + last


@inner
def wait_for_answer(state: State, one: int) -> None:
    """No connection yet: its SYN is sent again."""
    c = state.c
    wait_for_timer(state, one, tcp.syn_timeout(c.timeouts[one]))
    c.opens[one] = 1
    c.timeouts[one] += 1


@inner
def send_window(state: State, one: int) -> None:
    """A connection begins to send, with all of its window at once."""
    c, w, x = state.c, state.w, state.x
    if x.counts[ISOLATES] or not x.counts[TIMERS]:
        join(c, w, x, one)
        return
    c.at_once[one] = c.phase[one] == FINAL
    burst = min(c.left[one], c.window[one])
    lost = burst_lost(c, w, x, one, burst)
    if lost > 0.0:
        sent = np.ceil(burst / tcp.PAYLOAD)
        if c.phase[one] == FINAL or lost >= sent:
            alone = lost + c.closes[one] < 2.0
            miss(c, one, lost, TIMED_OUT if alone else PROBED)
        if lost >= sent:
            wait_for_the_rest(state, one)
            return
    join(c, w, x, one)


@inner
def tail_missing(state: State, one: int) -> bool:
    """Whether the end of what is sent is lost: then a timer comes before it is done."""
    c, w, x = state.c, state.w, state.x
    if c.missing[one] <= 0.0:
        return False
    leave(c, w, x, one)
    wait_for_the_rest(state, one)
    return True


@inner
def wait_for_the_rest(state: State, one: int) -> None:
    c = state.c
    c.left[one] += c.missing[one]
    c.missing[one] = 0.0
    c.opens[one] = 0
    rtt = 2.0 * c.delay[one] + c.wait[one] + c.wait_back[one]
    if c.found_by[one] < TIMED_OUT:
        wait_for_timer(state, one, tcp.PROBE_NS + 2.0 * rtt)
    else:
        least = float(state.x.counts[RTO_MIN])
        wait_for_timer(state, one, tcp.data_timeout(rtt, least, c.timeouts[one]))
        c.timeouts[one] += 1


@inner
def wait_for_timer(state: State, one: int, timeout: float) -> None:
    c, x = state.c, state.x
    c.phase[one] = LOST
    c.round_end[one] = np.inf
    schedule(state.q, x, one, tcp.rings_at(x.clock[0], timeout))


@inner
def lost_for(state: State, one: int) -> float:
    """How long until a packet that nothing follows, which only a timer finds, is not lost."""
    c, w, x = state.c, state.w, state.x
    now = x.clock[0]
    wait = c.wait[one]  # as it was just looked at
    spent, tries = 0.0, 0
    if x.counts[OVERFLOWS]:  # not compared with a kernel there
        return spent
    while tries < MOST_TRIES and packet_lost(c, w, x, one, False, wait):
        rtt = 2.0 * c.delay[one] + wait
        timeout = tcp.data_timeout(rtt, float(x.counts[RTO_MIN]), tries)
        spent = tcp.rings_at(now + spent, timeout) - now
        tries += 1
    return spent


@njit(cache=True)
def small_delay(held: Held, stream: int) -> float:
    """How long a small message takes on this stream's way now; if it is lost, a timer more."""
    c, w, x = held.state.c, held.state.w, held.state.x
    return c.delay[stream] + wait_ahead(c, w, x, stream) + lost_for(held.state, stream)


@inner
def report_missing(state: State, one: int) -> None:
    """More is sent behind what is missing: its acknowledgements say so, before a timer does.

    Not if that was sent again and lost again: then nothing else may be sent.
    """
    c, q, x = state.c, state.q, state.x
    if c.timeouts[one] <= 1:
        c.found_by[one] = REORDERED
        rtt = 2.0 * c.delay[one] + c.wait[one] + c.wait_back[one]
        schedule(q, x, one, min(q.time[one], x.clock[0] + rtt))


@inner
def timer_rings(state: State, one: int) -> None:
    """What was lost is sent again."""
    c, w, x = state.c, state.w, state.x
    if c.opens[one]:
        send_syn(state, one)
        return
    c.touched[one] = x.clock[0]
    wait = wait_ahead(c, w, x, one)
    lost_again = packet_lost(c, w, x, one, False, wait)
    # An answer sooner than any before could be to what was sent first: a probe then says nothing.
    rtt = 2.0 * c.delay[one] + wait + wait_back(c, w, x, one)
    sooner = rtt <= c.quickest[one] and c.quickest[one] > 2.0 * c.delay[one]
    if lost_again or (sooner and c.found_by[one] == PROBED):
        c.found_by[one] = TIMED_OUT
        wait_for_the_rest(state, one)
        return
    if c.found_by[one] == TIMED_OUT:
        c.threshold[one] = tcp.reduced(c.window[one], c.law[one])
        c.window[one] = tcp.PAYLOAD
        c.hears_at[one] = np.inf
    c.found_by[one] = REPORTED
    c.at_once[one] = 0
    c.timeouts[one] = 0
    c.bottleneck[one] = -1
    c.phase[one] = SLOW_START
    begin_round(state, one)
    join(c, w, x, one)
