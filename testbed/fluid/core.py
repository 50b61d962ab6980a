"""The events of a simulation: flows and messages start, rounds end, bytes arrive (compiled).

`advance` lets time pass until somebody outside has to hear of something: a training worker whose
transfer is done, a message that is there. What training does next is decided outside, by the same
state machines that drive the live workers.
"""

import numpy as np
from numba import njit

from testbed.fluid import tcp
from testbed.fluid.heap import schedule
from testbed.fluid.rates import (
    LEAST_SPLIT_NS,
    ahead_of,
    join,
    leave,
    progress,
    reschedule,
    settle,
    touch,
    wait_ahead,
    wait_at,
    wait_back,
)
from testbed.fluid.state import (
    AVOIDANCE,
    FINAL,
    HANDSHAKE,
    IDLE,
    MESSAGES,
    N_DIRTY,
    N_FREE,
    N_HEAP,
    N_SPLIT,
    N_TOLD,
    NEXT_FLOW,
    SLOW_START,
    State,
    Table,
)

RING_DONE, ARRIVED = 0, 1
UNTIL, TOLD, NO_ROOM, STUCK = 0, 1, 2, 3
TOO_MANY = 1_000_000  # events at one instant: time does not pass any more
ALMOST_NOTHING = 0.01  # of a byte: what rounding leaves, at times of many seconds


@njit(cache=True)
def advance(state: State, until: float) -> int:
    """Let time pass until `until`, or until somebody has to be told something."""
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


@njit(cache=True)
def happen(state: State, one: int) -> None:
    c, w, q, x = state.c, state.w, state.q, state.x
    if one >= len(c):
        arrive(state, one - len(c))
        return
    now = x.clock[0]
    if c.phase[one] == HANDSHAKE:
        c.window[one] = tcp.FIRST_WINDOW
        c.touched[one] = now
        c.phase[one] = SLOW_START
        begin_round(state, one)
        join(c, w, x, one)
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
            end_flow(state, one)
        else:
            message_sent(state, one)
        return
    if c.split[one]:
        long_enough = now >= c.split_at[one] + LEAST_SPLIT_NS
        if c.phase[partner] != IDLE and long_enough and ahead_of(c, one, now) <= 1.0:
            merge(state, one)
        reschedule(c, q, x, one)
        return
    if now >= c.round_end[one]:
        end_round(state, one)
    reschedule(c, q, x, one)


# ---- flows


@njit(cache=True)
def start_flow(state: State, at: int) -> None:
    """Takes a place; the handshake costs a round trip, with what waits on both ways."""
    c, w, f, q, x = state.c, state.w, state.f, state.q, state.x
    x.counts[N_FREE] -= 1
    one = x.free[x.counts[N_FREE]]
    hops = f.hops[at]
    c.hops[one] = hops
    for hop in range(hops):
        c.path[one, hop] = f.path[at, hop]
        c.back[one, hop] = f.back[at, hop]
        c.level[one, hop] = f.level[at, hop]
    c.band[one] = f.band[at]
    c.delay[one] = f.delay[at]
    c.flow[one] = at
    c.ack[one] = tcp.ACK_SHARE
    c.phase[one] = HANDSHAKE
    c.left[one] = f.bytes[at]
    c.rate[one] = 0.0
    c.threshold[one] = np.inf
    c.least_rtt[one] = np.inf
    c.lost_until[one] = 0.0
    c.bottleneck[one] = -1
    rtt = 2.0 * c.delay[one] + wait_ahead(c, w, x, one) + wait_back(c, w, x, one)
    schedule(q, x, one, x.clock[0] + rtt)


@njit(cache=True)
def end_flow(state: State, one: int) -> None:
    """The last byte has left; it is there after the rest of its way."""
    c, w, f, q, x = state.c, state.w, state.f, state.q, state.x
    early = min(f.bytes[c.flow[one]], tcp.FREE_BYTE) / line_rate(state, one)
    f.end[c.flow[one]] = x.clock[0] + last_leg(state, one) - early
    leave(c, w, x, one)
    c.phase[one] = IDLE
    schedule(q, x, one, np.inf)
    x.free[x.counts[N_FREE]] = one
    x.counts[N_FREE] += 1


@njit(cache=True)
def last_leg(state: State, one: int) -> float:
    """From the last byte's departure to its arrival: propagation, and the queues on the way.

    What a window let go has still to wait behind others; what a full link let go has done so.
    """
    c, w, x = state.c, state.w, state.x
    total = c.delay[one]
    if c.phase[one] == FINAL or c.rate[one] >= c.cap[one]:
        return total + c.wait[one]
    for hop in range(c.bottleneck[one] + 1, c.hops[one]):
        total += wait_at(c, w, x, c.path[one, hop], c.level[one, hop], one)
    return total


# ---- rounds


@njit(cache=True)
def begin_round(state: State, one: int) -> None:
    """A window's worth may be sent in the coming round trip; the rest of the flow if it fits."""
    c, w, x = state.c, state.w, state.x
    rtt = 2.0 * c.delay[one] + wait_ahead(c, w, x, one) + wait_back(c, w, x, one)
    c.least_rtt[one] = min(c.least_rtt[one], rtt)
    if c.left[one] <= c.window[one]:
        c.phase[one] = FINAL
        c.cap[one] = np.inf
        c.round_end[one] = np.inf
        return
    c.cap[one] = c.window[one] / rtt
    c.round_end[one] = x.clock[0] + rtt


@njit(cache=True)
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
        line = rate  # others share the way: acknowledgements come no faster than it sends
        rtt = max(rtt, window / rate)
    end = tcp.slow_start_end(window, line, rtt, c.least_rtt[one])
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


@njit(cache=True)
def line_rate(state: State, one: int) -> float:
    c, w = state.c, state.w
    rate = np.inf
    for hop in range(c.hops[one]):
        rate = min(rate, w.capacity[c.path[one, hop]])
    return rate


# ---- streams


@njit(cache=True)
def post(state: State, stream: int, size: float) -> bool:
    """Hand a message to a stream. False if too many are waiting."""
    c, s = state.c, state.s
    if s.waiting[stream] + s.arriving[stream] >= MESSAGES:
        return False
    s.sizes[stream, (s.head[stream] + s.waiting[stream]) % MESSAGES] = size
    s.waiting[stream] += 1
    if s.waiting[stream] == 1:
        next_message(state, stream, True)
        return True
    c.queued[stream] += size
    if c.split[stream]:
        feed(state, stream, size)
    return True


@njit(cache=True)
def next_message(state: State, stream: int, idle: bool) -> None:
    """Send the message at the head of the line; the connection keeps its window."""
    c, w, s, q, x = state.c, state.w, state.s, state.q, state.x
    now = x.clock[0]
    c.left[stream] = s.sizes[stream, s.head[stream]]
    c.touched[stream] = now
    if idle:
        rested = tcp.rested(c.window[stream], now - s.busy_ns[stream])
        if rested < c.window[stream]:
            c.threshold[stream] = max(c.threshold[stream], 0.75 * c.window[stream])
            c.window[stream] = rested
        c.least_rtt[stream] = min(c.least_rtt[stream], 2.0 * c.delay[stream])
        c.bottleneck[stream] = -1
    if c.window[stream] < c.threshold[stream]:
        c.phase[stream] = SLOW_START
        begin_round(state, stream)
    elif c.left[stream] <= c.window[stream]:
        c.phase[stream] = FINAL
        c.cap[stream] = np.inf
        c.round_end[stream] = np.inf
    else:
        c.phase[stream] = AVOIDANCE
        c.round_end[stream] = np.inf
    if idle:
        join(c, w, x, stream)
    else:
        for hop in range(c.hops[stream]):
            touch(w, x, c.path[stream, hop])
    reschedule(c, q, x, stream)


@njit(cache=True)
def message_sent(state: State, stream: int) -> None:
    c, w, s, q, x = state.c, state.w, state.s, state.q, state.x
    now = x.clock[0]
    # A message that fitted into the window grows it no further: it was not what held TCP back.
    arrival = now + last_leg(state, stream)
    if s.arriving[stream]:
        last = (s.arrival_head[stream] + s.arriving[stream] - 1) % MESSAGES
        arrival = max(arrival, s.arrivals[stream, last])
    s.arrivals[stream, (s.arrival_head[stream] + s.arriving[stream]) % MESSAGES] = arrival
    s.arriving[stream] += 1
    if s.arriving[stream] == 1:
        schedule(q, x, len(c) + stream, arrival)
    s.busy_ns[stream] = now
    s.head[stream] = (s.head[stream] + 1) % MESSAGES
    s.waiting[stream] -= 1
    if s.waiting[stream]:
        next_size = s.sizes[stream, s.head[stream]]
        c.queued[stream] -= next_size
        if c.split[stream] and next_size <= c.window[stream]:
            c.left[stream] = next_size
            reschedule(c, q, x, stream)
            return
        if c.split[stream]:
            merge(state, stream)
        next_message(state, stream, False)
    else:
        if c.split[stream]:
            merge(state, stream)
        leave(c, w, x, stream)
        c.phase[stream] = IDLE
        schedule(q, x, stream, np.inf)


@njit(cache=True)
def split(state: State, stream: int) -> None:
    """Let a stream's first link run ahead of the links behind it, into the switch's queue.

    From here on the feeder stands for the first link and the stream for the rest of the way. Where
    others go first at several links, each link is then used whenever it is free, not only when all
    of them are.
    """
    c, w, x = state.c, state.w, state.x
    leave(c, w, x, stream)
    shift(c, stream, 1)
    c.split[stream] = 1
    c.split_at[stream] = x.clock[0]
    c.cap[stream] = np.inf
    join(c, w, x, stream)
    feed(state, stream, c.left[stream] + c.queued[stream])


@njit(cache=True)
def feed(state: State, stream: int, size: float) -> None:
    c, w, x = state.c, state.w, state.x
    feeder = c.partner[stream]
    now = x.clock[0]
    if c.phase[feeder] == IDLE:
        c.left[feeder] = 0.0
        c.touched[feeder] = now
        c.window[feeder] = c.window[stream]
        c.phase[feeder] = FINAL
        c.cap[feeder] = np.inf
        c.bottleneck[feeder] = -1
        join(c, w, x, feeder)
    else:
        progress(c, w, feeder, now)
    c.left[feeder] += size
    reschedule(c, state.q, x, feeder)


@njit(cache=True)
def feeder_done(state: State, feeder: int) -> None:
    c, w, x = state.c, state.w, state.x
    c.left[feeder] = 0.0
    leave(c, w, x, feeder)
    c.phase[feeder] = IDLE
    schedule(state.q, x, feeder, np.inf)


@njit(cache=True)
def merge(state: State, stream: int) -> None:
    """Nothing is ahead any more: the stream stands for its whole way again."""
    c, w, x = state.c, state.w, state.x
    feeder = c.partner[stream]
    if c.phase[feeder] != IDLE:
        progress(c, w, feeder, x.clock[0])
        feeder_done(state, feeder)
    leave(c, w, x, stream)
    shift(c, stream, -1)
    c.split[stream] = 0
    join(c, w, x, stream)


@njit(cache=True)
def shift(c: Table, stream: int, by: int) -> None:
    """Take the first link off a stream's way (1), or put it on again (-1)."""
    hops = c.hops[stream]
    feeder = c.partner[stream]
    if by == 1:
        c.path[feeder, 0] = c.path[stream, 0]
        c.level[feeder, 0] = c.level[stream, 0]
        c.back[feeder, 0] = c.back[stream, 0]
        for hop in range(1, hops):
            c.path[stream, hop - 1] = c.path[stream, hop]
            c.level[stream, hop - 1] = c.level[stream, hop]
    else:
        for hop in range(hops, 0, -1):
            c.path[stream, hop] = c.path[stream, hop - 1]
            c.level[stream, hop] = c.level[stream, hop - 1]
        c.path[stream, 0] = c.path[feeder, 0]
        c.level[stream, 0] = c.level[feeder, 0]
    c.hops[stream] = hops - by


@njit(cache=True)
def arrive(state: State, stream: int) -> None:
    c, s, q, x = state.c, state.s, state.q, state.x
    s.arrival_head[stream] = (s.arrival_head[stream] + 1) % MESSAGES
    s.arriving[stream] -= 1
    coming = s.arrivals[stream, s.arrival_head[stream]] if s.arriving[stream] else np.inf
    schedule(q, x, len(c) + stream, coming)
    receiver = s.next[stream]
    if receiver >= 0:
        s.arrived[receiver] += 1
        ring_on(state, receiver)
    else:
        tell(state, stream, ARRIVED)


@njit(cache=True)
def change_level(state: State, stream: int, level: int) -> None:
    """Serve a stream, and the feeder that may run ahead of it, at another level from now on."""
    c, w, x = state.c, state.w, state.x
    for one in (stream, c.partner[stream]):
        if c.phase[one] != IDLE:
            progress(c, w, one, x.clock[0])  # what was sent so far counts in its old band
            for hop in range(c.hops[one]):
                touch(w, x, c.path[one, hop])
        for hop in range(len(c.level[one])):
            c.level[one, hop] = level
        c.band[one] = level


@njit(cache=True)
def tell(state: State, stream: int, kind: int) -> None:
    x = state.x
    x.told[x.counts[N_TOLD]] = stream
    x.told_kind[x.counts[N_TOLD]] = kind
    x.counts[N_TOLD] += 1


@njit(cache=True)
def begin_ring(state: State, stream: int, chunk: float) -> None:
    """A worker takes part in an all-reduce; `chunk` bytes travel in each step."""
    s = state.s
    s.active[stream] = 1
    s.handed[stream] = 0
    s.chunk[stream] = chunk
    ring_on(state, stream)


@njit(cache=True)
def ring_on(state: State, stream: int) -> None:
    """Send what a worker may: step k once it has received step k - 1."""
    s = state.s
    if not s.active[stream]:
        return
    steps = s.steps[stream]
    received = min(steps, s.arrived[stream] - s.earlier[stream])
    while s.handed[stream] < steps and s.handed[stream] <= received:
        post(state, stream, s.chunk[stream])
        s.handed[stream] += 1
    if s.handed[stream] == steps and received == steps:
        s.active[stream] = 0
        s.earlier[stream] += steps
        tell(state, stream, RING_DONE)


@njit(cache=True)
def bring_up_to_date(state: State) -> None:
    """All counters as of now."""
    c, w, x = state.c, state.w, state.x
    for one in range(len(c)):
        if c.phase[one] > HANDSHAKE:
            progress(c, w, one, x.clock[0])


@njit(cache=True)
def path_wait(state: State, stream: int) -> float:
    """How long a small message on this stream's way waits in queues now."""
    return wait_ahead(state.c, state.w, state.x, stream)
