"""The events of a simulation: flows start and end, rounds end, messages arrive (compiled).

`advance` lets time pass until somebody outside has to hear of something: a training worker whose
transfer is done, a message that is there. What training does next is decided outside, by the same
state machines that drive the live workers.
"""

import numpy as np
from numba import njit

from testbed.fluid import tcp
from testbed.fluid.heap import schedule
from testbed.fluid.held import Held
from testbed.fluid.inner import inner
from testbed.fluid.iterations import weigh
from testbed.fluid.losses import REPORTED, hear
from testbed.fluid.queues import ahead_of
from testbed.fluid.quiet import wait_ahead, wait_back
from testbed.fluid.rates import LEAST_SPLIT_NS, leave, progress, reschedule, settle, touch
from testbed.fluid.rounds import begin_round, end_round, last_leg, line_rate
from testbed.fluid.state import (
    ANSWER,
    DEMOTIONS,
    HANDSHAKE,
    IDLE,
    LAW,
    LOST,
    N_DIRTY,
    N_FREE,
    N_HEAP,
    N_SPLIT,
    N_TOLD,
    NEXT_FLOW,
    SLOW_START,
    WINDOW,
    Floats,
    State,
)
from testbed.fluid.steps import arrive
from testbed.fluid.streams import feeder_done, merge, message_sent, serve_at, split
from testbed.fluid.timers import (
    send_answer,
    send_syn,
    send_window,
    small_leg,
    tail_missing,
    timer_rings,
)

UNTIL, TOLD, NO_ROOM, STUCK = 0, 1, 2, 3
TOO_MANY = 1_000_000  # events at one instant: time does not pass any more
ALMOST_NOTHING = 0.01  # of a byte: what rounding leaves, at times of many seconds


@njit(cache=True)
def advance(held: Held, until: float) -> int:
    """Let time pass until `until`, or until somebody has to be told something."""
    state = held.state
    c, w, f, q, x = state.c, state.w, state.f, state.q, state.x
    flows = len(f)
    events = 0
    since = x.clock[0]
    while True:
        events += 1
        if x.clock[0] > since:
            events, since = 0, x.clock[0]
        elif events > TOO_MANY:
            return STUCK
        if x.counts[N_DIRTY]:
            settle(c, w, q, x)
            for at in range(x.counts[N_SPLIT]):
                split(state, x.split[at])
            if x.counts[N_SPLIT]:
                x.counts[N_SPLIT] = 0
                continue
        if x.counts[N_TOLD]:
            return TOLD
        due = np.inf
        if x.counts[N_HEAP]:
            due = q.time[q.order[0]]
        at = x.counts[NEXT_FLOW]
        starts = f.start[at] if at < flows else np.inf
        if min(due, starts) > until:
            x.clock[0] = until
            return UNTIL
        if starts <= due:
            if not x.counts[N_FREE]:
                return NO_ROOM
            x.clock[0] = starts
            x.counts[NEXT_FLOW] += 1
            start_flow(state, at)
            continue
        x.clock[0] = due
        # Everything of this instant, then new rates.
        while x.counts[N_HEAP] and q.time[q.order[0]] <= due:
            happen(state, q.order[0])


@inner
def happen(state: State, one: int) -> None:
    c, w, q, x = state.c, state.w, state.q, state.x
    if one >= len(c):
        arrive(state, one - len(c))
        return
    now = x.clock[0]
    if c.phase[one] == HANDSHAKE:
        send_answer(state, one)
        return
    if c.phase[one] == LOST:
        timer_rings(state, one)
        return
    if c.phase[one] == ANSWER:
        c.window[one] = min(tcp.FIRST_WINDOW, c.receive[one])
        c.touched[one] = now
        c.phase[one] = SLOW_START
        c.timeouts[one] = 0
        begin_round(state, one)
        send_window(state, one)
        return
    progress(c, w, one, now)
    partner = c.partner[one]
    if 0 <= partner < one:
        if c.left[one] <= ALMOST_NOTHING:
            feeder_done(state, one)
        reschedule(c, q, x, one)
        return
    if c.left[one] <= ALMOST_NOTHING:
        if c.flow[one] >= 0:
            if not tail_missing(state, one):
                end_flow(state, one)
        else:
            message_sent(state, one)
        return
    if c.left[one] <= c.demoted_at[one] + ALMOST_NOTHING:
        if c.flow[one] >= 0:
            demote(state, one)
        else:
            weigh(state, one)
    if c.split[one]:
        long_enough = now >= c.split_at[one] + LEAST_SPLIT_NS
        if c.phase[partner] != IDLE and long_enough and ahead_of(c, one, now) <= 1.0:
            merge(state, one)
        reschedule(c, q, x, one)
        return
    if now >= c.hears_at[one]:
        hear(c, one, now)
        for hop in range(c.hops[one]):
            touch(w, x, c.path[one, hop])
    if now >= c.round_end[one]:
        end_round(state, one)
    reschedule(c, q, x, one)


@inner
def start_flow(state: State, at: int) -> None:
    """Takes a place, and begins with a handshake."""
    c, f, x = state.c, state.f, state.x
    x.counts[N_FREE] -= 1
    one = x.free[x.counts[N_FREE]]
    hops = f.hops[at]
    c.hops[one] = hops
    for hop in range(hops):
        c.path[one, hop] = f.path[at, hop]
        c.back[one, hop] = f.back[at, hop]
        c.level[one, hop] = f.level[at, hop]
    c.ack_level[one] = f.band[at]
    c.demotions[one] = 0
    c.demoted_at[one] = f.demoted_at[at, 0]
    c.band[one] = f.band[at]
    c.delay[one] = f.delay[at]
    c.flow[one] = at
    c.ack[one] = tcp.ACK_SHARE
    c.missing[one] = 0.0
    c.found_by[one] = REPORTED
    c.closes[one] = f.bytes[at] <= tcp.FIRST_WINDOW
    c.timeouts[one] = 0
    c.left[one] = f.bytes[at]
    c.rate[one] = 0.0
    c.threshold[one] = np.inf
    c.least_rtt[one] = np.inf
    c.wait_back[one] = 0.0
    c.receive[one] = x.counts[WINDOW] or tcp.RECEIVER_FIRST
    c.tuned[one] = x.counts[WINDOW] == 0
    c.law[one] = x.counts[LAW]
    c.hears_at[one] = np.inf
    c.lost_until[one] = 0.0
    c.who[one] = len(state.s) + at
    c.draws[one] = 0
    c.bottleneck[one] = -1
    send_syn(state, one)


@inner
def demote(state: State, one: int) -> None:
    """A flow's first bytes are sent: the rest waits with others. Its acknowledgements do not."""
    c, f = state.c, state.f
    flow, done = c.flow[one], c.demotions[one]
    serve_at(state, one, f.demoted_to[flow, done])
    c.demotions[one] = done + 1
    c.demoted_at[one] = f.demoted_at[flow, done + 1] if done + 1 < DEMOTIONS else -1.0
    wait_ahead(c, state.w, state.x, one)


@inner
def end_flow(state: State, one: int) -> None:
    """The last byte has left; it is there after the rest of its way, and then word of it goes back.

    With the queues of now: they are forgotten by then.
    """
    c, w, f, q, x = state.c, state.w, state.f, state.q, state.x
    early = min(f.bytes[c.flow[one]], tcp.FREE_BYTE) / line_rate(state, one)
    f.end[c.flow[one]] = x.clock[0] + last_leg(state, one) - early
    leave(c, w, x, one)
    c.phase[one] = IDLE
    word = small_leg(state, one, wait_back(c, w, x, one))
    f.acked[c.flow[one]] = f.end[c.flow[one]] + word
    schedule(q, x, one, np.inf)
    x.free[x.counts[N_FREE]] = one
    x.counts[N_FREE] += 1


@njit(cache=True)
def carried_now(held: Held) -> Floats:
    """Payload carried so far, by link and band. Looking changes nothing."""
    c, w, x = held.state.c, held.state.w, held.state.x
    found = w.carried.copy()
    for one in range(len(c)):
        if c.phase[one] >= SLOW_START:
            sent = min(c.left[one], c.rate[one] * (x.clock[0] - c.touched[one]))
            for hop in range(c.hops[one]):
                found[c.path[one, hop], c.band[one]] += sent
    return found
