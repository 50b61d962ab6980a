"""Streams: connections of training jobs, which carry message after message (compiled)."""

import numpy as np
from numba import njit

from testbed.fluid import tcp
from testbed.fluid.heap import schedule
from testbed.fluid.held import Held
from testbed.fluid.inner import inner
from testbed.fluid.iterations import begin_message
from testbed.fluid.losses import hear
from testbed.fluid.quiet import known_ahead
from testbed.fluid.rates import join, leave, progress, reschedule, touch
from testbed.fluid.rounds import begin_final, begin_round, last_leg
from testbed.fluid.state import (
    AVOIDANCE,
    FINAL,
    IDLE,
    LOST,
    MESSAGES,
    RTO_MIN,
    SLOW_START,
    State,
    Table,
)
from testbed.fluid.timers import report_missing, send_window, tail_missing


@njit(cache=True)
def hand_in(held: Held, stream: int, size: float) -> bool:
    """From outside: see `post`."""
    return post(held.state, stream, size)


@inner
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
    if c.phase[stream] == LOST:
        report_missing(state, stream)
    elif c.split[stream]:
        feed(state, stream, size)
    return True


@inner
def next_message(state: State, stream: int, idle: bool) -> None:
    """Send the message at the head of the line; the connection keeps its window."""
    c, w, s, q, x = state.c, state.w, state.s, state.q, state.x
    now = x.clock[0]
    begin_message(state, stream, idle)
    c.touched[stream] = now
    if now >= c.hears_at[stream]:
        hear(c, stream, now)
    if idle:
        if c.tuned[stream] and now - s.busy_ns[stream] > tcp.PAUSE_NS:
            c.receive[stream] = np.inf  # for its receiver the pause is a round trip
        rested = tcp.rested(c.window[stream], now - s.busy_ns[stream], float(x.counts[RTO_MIN]))
        if rested < c.window[stream]:
            c.threshold[stream] = max(c.threshold[stream], 0.75 * c.window[stream])
            c.window[stream] = rested
        c.least_rtt[stream] = min(c.least_rtt[stream], 2.0 * c.delay[stream])
        c.bottleneck[stream] = -1
    if c.window[stream] < c.threshold[stream]:
        c.phase[stream] = SLOW_START
        begin_round(state, stream)
    elif c.left[stream] <= c.window[stream]:
        if idle:
            known_ahead(c, w, x, stream)
        else:
            c.wait[stream] = 0.0  # it stands in the queue already
        begin_final(c, stream, now)
        c.cap[stream] = np.inf
        c.round_end[stream] = np.inf
    else:
        c.phase[stream] = AVOIDANCE
        c.round_end[stream] = np.inf
    c.timeouts[stream] = c.found_by[stream] = 0
    c.at_once[stream] = c.phase[stream] == FINAL
    if idle:
        send_window(state, stream)
    else:
        for hop in range(c.hops[stream]):
            touch(w, x, c.path[stream, hop])
    reschedule(c, q, x, stream)


@inner
def message_sent(state: State, stream: int) -> None:
    c, w, s, q, x = state.c, state.w, state.s, state.q, state.x
    now = x.clock[0]
    if c.missing[stream] > 0.0:
        if c.split[stream]:
            merge(state, stream)
        if s.waiting[stream] == 1:
            tail_missing(state, stream)
            return
        # What is sent behind it reports it.
        c.left[stream] = c.missing[stream]
        c.missing[stream] = 0.0
        for hop in range(c.hops[stream]):
            touch(w, x, c.path[stream, hop])
        return
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
            begin_message(state, stream, False)
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


@inner
def split(state: State, stream: int) -> None:
    """Let a stream's first link run ahead of the links behind it, into the switch's queue.

    From here on the feeder stands for the first link and the stream for the rest of the way. Where
    others go first at several links, each link is then used whenever it is free, not all at once.
    """
    c, w, x = state.c, state.w, state.x
    leave(c, w, x, stream)
    shift(c, stream, 1)
    c.split[stream] = 1
    c.split_at[stream] = x.clock[0]
    c.cap[stream] = np.inf
    join(c, w, x, stream)
    feed(state, stream, c.left[stream] + c.queued[stream])


@inner
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


@inner
def feeder_done(state: State, feeder: int) -> None:
    c, w, x = state.c, state.w, state.x
    c.left[feeder] = 0.0
    leave(c, w, x, feeder)
    c.phase[feeder] = IDLE
    schedule(state.q, x, feeder, np.inf)


@inner
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


@inner
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
def silence(held: Held, stream: int) -> None:
    """Who used this stream is gone: what it had to send is not sent, and what was sent is lost."""
    state = held.state
    c, w, s, q, x = state.c, state.w, state.s, state.q, state.x
    stands = c.phase[stream] != IDLE and c.phase[stream] != LOST
    if stands:
        progress(c, w, stream, x.clock[0])
    if c.split[stream]:
        merge(state, stream)
    if stands:
        leave(c, w, x, stream)
    c.phase[stream] = IDLE
    s.waiting[stream] = s.arriving[stream] = 0
    schedule(q, x, stream, np.inf)
    schedule(q, x, len(c) + stream, np.inf)


@njit(cache=True)
def change_level(held: Held, stream: int, level: int) -> None:
    """Serve a stream, and the feeder that may run ahead of it, at another level from now on."""
    state = held.state
    serve_at(state, stream, level)
    serve_at(state, state.c.partner[stream], level)


@inner
def serve_at(state: State, one: int, level: int) -> None:
    """Serve one connection at another level from now on, at all of its links."""
    c, w, x = state.c, state.w, state.x
    if c.phase[one] != IDLE:
        progress(c, w, one, x.clock[0])  # what was sent so far counts in its old band
        for hop in range(c.hops[one]):
            touch(w, x, c.path[one, hop])
    for hop in range(len(c.level[one])):
        c.level[one, hop] = level
    c.band[one] = level


@njit(cache=True)
def change_levels(held: Held, stream: int, level: int) -> None:
    """Serve a stream, and its feeder, at another level; both are counted in the band they were.

    Its acknowledgements go before all that has a level below the first.
    """
    c = held.state.c
    feeder = c.partner[stream]
    band = c.band[stream]
    change_level(held, stream, level)
    c.band[stream] = c.band[feeder] = band
    c.ack_level[stream] = 0


@njit(cache=True)
def change_first_level(held: Held, stream: int, level: int) -> None:
    """Serve a stream at another level at its first link from now on."""
    state = held.state
    c, w, x = state.c, state.w, state.x
    one = c.partner[stream] if c.split[stream] else stream
    if c.level[one, 0] == level:
        return
    if c.phase[one] != IDLE:
        progress(c, w, one, x.clock[0])
        touch(w, x, c.path[one, 0])
    c.level[one, 0] = level


@njit(cache=True)
def change_last_level(held: Held, stream: int, level: int) -> None:
    """Serve a stream at another level at its last link from now on."""
    state = held.state
    c, w, x = state.c, state.w, state.x
    last = c.hops[stream] - 1  # whether or not a feeder has the first
    if c.level[stream, last] == level:
        return
    if c.phase[stream] != IDLE:
        progress(c, w, stream, x.clock[0])
        touch(w, x, c.path[stream, last])
    c.level[stream, last] = level
