"""Queues that are full: who loses packets there, and what that does to a window (compiled).

Packets of a queue beyond its limit are lost with the same probability, drawn from the run's seed.
Of a window that is sent at once, those are lost that find no room, which are its last.
"""

import numpy as np

from testbed.fluid import tcp
from testbed.fluid.chance import draw
from testbed.fluid.inner import inner
from testbed.fluid.queues import backlog, hop_of, left_now
from testbed.fluid.state import (
    AVOIDANCE,
    FINAL,
    ISOLATES,
    OVERFLOWS,
    SLOW_START,
    TIMERS,
    Scratch,
    Table,
)

# A full queue: an acknowledgement lets two packets go, at some instant of the time in which two
# leave. So on average a quarter of the time there is no place, as long there are two, and one else.
NO_PLACE, TWO_PLACES = 0.25, 0.75
# Which timer finds out what is missing of a tail: none has to, the shortest, a probe, the longest.
REPORTED, REORDERED, PROBED, TIMED_OUT = range(4)


@inner
def answer_losses(c: Table, w: Table, x: Scratch, link: int) -> None:
    """A queue that would hold more than its limit loses the rest; whoever lost some slows down."""
    now = x.clock[0]
    held = 0.0
    one = w.first[link]
    while one >= 0:
        hop = hop_of(c, one, link)
        if c.bottleneck[one] == hop:
            held += backlog(c, one, now)
        one = c.after[one, hop]
    if held <= w.limit[link]:
        return
    share = 1.0 - w.limit[link] / held
    one = w.first[link]
    while one >= 0:
        hop = hop_of(c, one, link)
        if c.bottleneck[one] == hop and now >= c.lost_until[one]:
            c.lost_until[one] = now + 2.0 * c.delay[one] + held / w.capacity[link]
            kept = backlog(c, one, now)
            packets = kept / tcp.PAYLOAD
            if draw(c, x, one) < 1.0 - np.exp(-share * packets):
                if ends_here(c, x, one, kept):
                    lose_tail(c, x, one, share, packets)
                if x.counts[OVERFLOWS] and not c.split[one]:
                    overflow(c, one, now, share * kept)
                else:
                    slow_down(c, one, tcp.reduced(c.window[one], c.law[one]))
        one = c.after[one, hop]


@inner
def ends_here(c: Table, x: Scratch, one: int, waiting: float) -> bool:
    """Whether the last packets of what a connection sends are among those that come now.

    Those that were sent at once and wait in a queue already are not lost any more.
    """
    feeds = 0 <= c.partner[one] < one
    if not x.counts[TIMERS] or feeds or c.split[one] or c.at_once[one] or c.queued[one] > 0.0:
        return False
    return left_now(c, one, x.clock[0]) <= waiting + 1.0


@inner
def lose_tail(c: Table, x: Scratch, one: int, share: float, packets: float) -> None:
    """Of the last packets, each is lost alike: what of that do none behind them report?

    Three packets behind a hole have TCP send it again at once.
    """
    count = int(np.ceil(packets)) + c.closes[one]
    lost = arrived = 0
    last = False
    for at in range(min(count, 1 + tcp.REPORTING)):
        if draw(c, x, one) < share:
            lost += 1
            last |= at == 0
        else:
            arrived += 1
    if not lost or (arrived == 0 and count > lost):
        return
    if not last:
        miss(c, one, lost, REORDERED)
    elif lost > 1:
        miss(c, one, lost - c.closes[one], PROBED)
    elif not c.closes[one]:
        miss(c, one, 1, TIMED_OUT)


@inner
def miss(c: Table, one: int, packets: float, found_by: int) -> None:
    """The last packets of what a connection sends have been lost."""
    missing = min(c.left[one], packets * tcp.PAYLOAD)
    c.left[one] -= missing
    c.missing[one] += missing
    c.found_by[one] = max(c.found_by[one], found_by)


@inner
def overflow(c: Table, one: int, now: float, lost: float) -> None:
    """A queue is full: until a connection hears of its loss, and has sent that again, it stays so.

    Slow start has doubled its window by then: what it keeps is what has found a place.
    """
    rtt = c.lost_until[one] - now
    c.hears_at[one] = now + rtt
    c.lost_until[one] += rtt
    if c.phase[one] == SLOW_START:
        c.hears_of[one] = c.window[one] - lost
        c.phase[one] = AVOIDANCE
        c.round_end[one] = np.inf
    else:
        c.hears_of[one] = tcp.reduced(c.window[one], c.law[one])


@inner
def hear(c: Table, one: int, now: float) -> None:
    """A connection hears of its loss; when all is sent again, it looks whether there is room."""
    if c.hears_of[one] > 0.0:
        slow_down(c, one, c.hears_of[one])
        c.hears_of[one] = 0.0
        c.hears_at[one] = c.lost_until[one]
    else:
        c.hears_at[one] = np.inf


@inner
def slow_down(c: Table, one: int, window: float) -> None:
    """A connection goes on with a smaller window."""
    c.law[one] = max(tcp.FRIENDLY, c.law[one])
    c.window[one] = window
    c.threshold[one] = c.window[one]
    if c.phase[one] != FINAL:
        c.phase[one] = AVOIDANCE
        c.round_end[one] = np.inf


@inner
def held_at(c: Table, w: Table, x: Scratch, link: int, level: int, one: int) -> float:
    """What others than `one` have in the queue of a level at a link."""
    now = x.clock[0]
    held = 0.0
    other = w.first[link]
    while other >= 0:
        hop = hop_of(c, other, link)
        if other != one and c.bottleneck[other] == hop and c.level[other, hop] == level:
            held += backlog(c, other, now)
        other = c.after[other, hop]
    return held


@inner
def packet_lost(c: Table, w: Table, x: Scratch, one: int, back: bool, wait: float) -> bool:
    """Whether a packet that a connection sends now, or gets back, meets a full queue and no place.

    `wait`: how long it would wait on its way; behind a full queue as long as that lasts.
    """
    if x.counts[ISOLATES] or not x.counts[TIMERS]:
        return False
    hops = c.hops[one]
    for hop in range(hops):
        link = c.back[one, hop] if back else c.path[one, hop]
        level = c.level[one, hops - 1 - hop if back else hop]
        if back and c.ack_level[one] >= 0:
            level = c.ack_level[one]
        full = w.limit[link] - tcp.PAYLOAD
        if wait * w.capacity[link] <= full or held_at(c, w, x, link, level, one) <= full:
            continue
        if draw(c, x, one) < NO_PLACE:
            return True
    return False


@inner
def places(at: float) -> float:
    """Packets for which there is room in a full queue."""
    return 0.0 if at < NO_PLACE else 2.0 if at >= TWO_PLACES else 1.0


@inner
def burst_lost(c: Table, w: Table, x: Scratch, one: int, burst: float) -> float:
    """Of a window that is sent at once: the packets that find no room, at the worst port.

    At the first port it comes in one piece, at the next ones as fast as a line brings it: there
    goes on what the others leave of the line.
    """
    worst = 0.0
    for hop in range(c.hops[one]):
        link, level = c.path[one, hop], c.level[one, hop]
        free = max(0.0, 1.0 - w.load[link] / w.capacity[link])
        passes = burst * free if hop else min(burst, free * tcp.FREE_BYTE)
        room = w.limit[link] + passes - burst
        if room >= w.limit[link]:
            continue
        held = min(w.limit[link], held_at(c, w, x, link, level, one))
        missing = held - room
        if missing > 0.0:
            worst = max(worst, min(missing, burst - places(draw(c, x, one)) * tcp.PAYLOAD))
    return np.ceil(worst / tcp.PAYLOAD)
