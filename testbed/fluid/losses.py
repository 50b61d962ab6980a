"""Queues that are full: who loses packets there, and what that does to a window (compiled).

Each level has a queue of its own at a port. Packets of a queue beyond its limit are lost with the
same probability. Senders hear of it a round trip later, and until then they keep the queue full:
who comes meanwhile finds a place or is lost.
"""

import numpy as np
from numba import njit

from testbed.fluid import tcp
from testbed.fluid.chance import draw
from testbed.fluid.queues import backlog, hop_of, left_now, window_now
from testbed.fluid.state import AVOIDANCE, BANDS, FINAL, ISOLATES, MARKS, Scratch, Table

# A full queue: an acknowledgement lets two packets go, at some instant of the time in which two
# leave. So on average a quarter of the time there is no place, as long there are two, and one else.
NO_PLACE, TWO_PLACES = 0.25, 0.75


@njit(cache=True)
def answer_losses(c: Table, w: Table, x: Scratch, link: int) -> None:
    """A queue that would hold more than its limit loses the rest; whoever lost some slows down."""
    now = x.clock[0]
    limit = w.limit[link]
    total = growing = 0.0
    for level in range(BANDS):
        x.held[level] = x.growing[level] = 0.0
    one = w.first[link]
    while one >= 0:
        hop = hop_of(c, one, link)
        if c.bottleneck[one] == hop:
            kept = backlog(c, one, now)
            x.held[c.level[one, hop]] += kept
            total += kept
            more = growth(c, one, now)
            x.growing[c.level[one, hop]] += more
            growing += more
        one = c.after[one, hop]
    if growing > 0.0:
        foresee(c, w, x, link)
    if total <= limit:
        return
    one = w.first[link]
    while one >= 0:
        hop = hop_of(c, one, link)
        level = c.level[one, hop]
        held = x.held[level]
        if c.bottleneck[one] == hop and held > limit and now >= c.lost_until[one]:
            c.lost_until[one] = now + 2.0 * c.delay[one] + held / w.capacity[link]
            excess, grows = max(tcp.PAYLOAD, held - limit), x.growing[level]
            stay_full(c, w, x, one, link, excess / grows if grows > 0.0 else np.inf)
            share = 1.0 - limit / held
            packets = backlog(c, one, now) / tcp.PAYLOAD
            if draw(c, x, one) < 1.0 - np.exp(-share * packets):
                lose_tail(c, x, one, share, packets)
                slow_down(c, one)
        one = c.after[one, hop]


@njit(cache=True)
def foresee(c: Table, w: Table, x: Scratch, link: int) -> None:
    """When growing windows will have a packet too many in a queue: whoever grows looks then.

    Not sooner than after a round trip: nobody answers sooner.
    """
    now, limit = x.clock[0], w.limit[link]
    one = w.first[link]
    while one >= 0:
        hop = hop_of(c, one, link)
        if c.bottleneck[one] == hop and growth(c, one, now) > 0.0:
            level = c.level[one, hop]
            coming = (limit + tcp.PAYLOAD - x.held[level]) / x.growing[level]
            rtt = 2.0 * c.delay[one] + limit / w.capacity[link]
            c.overflow_at[one] = now + max(coming, rtt)
        one = c.after[one, hop]


@njit(cache=True)
def growth(c: Table, one: int, now: float) -> float:
    """How fast a connection's window grows, in bytes a nanosecond, if its queue grows with it."""
    if c.phase[one] != AVOIDANCE or c.rate[one] <= 0.0:
        return 0.0
    in_a_packet = tcp.PAYLOAD / c.rate[one]
    return (window_now(c, one, now + in_a_packet) - window_now(c, one, now)) / in_a_packet


@njit(cache=True)
def stay_full(c: Table, w: Table, x: Scratch, one: int, link: int, excess_ns: float) -> None:
    """For as long as windows took to grow by what is too much, the queue is full.

    Not for longer than a round trip: then the sender has heard of its loss.
    """
    level = c.level[one, hop_of(c, one, link)]
    heard_ns = 2.0 * c.delay[one] + w.limit[link] / w.capacity[link]
    until = x.clock[0] + min(heard_ns, excess_ns)
    w.full_until[link, level] = max(w.full_until[link, level], until)


@njit(cache=True)
def lose_tail(c: Table, x: Scratch, one: int, share: float, packets: float) -> None:
    """Of a connection whose last packets wait: those lost that nothing behind them reports.

    Three packets behind a hole have TCP send it again at once; with fewer it waits for a short
    timer. If only the last packet of all is missing, for a long one.
    """
    feeds = 0 <= c.partner[one] < one
    if x.counts[MARKS] or feeds or c.split[one]:
        return
    if left_now(c, one, x.clock[0]) > tcp.PAYLOAD * packets + 1.0:
        return
    kept = 1.0 - share
    behind = max(0.0, min(np.ceil(packets) - 1.0, tcp.REPORTING))
    before_last = share if behind > 0.0 else 0.0
    # Each packet alike: only the last is lost, that and others before it, one of those alone.
    last_alone = share * (1.0 - before_last)
    unreported = share + kept * (1.0 - kept**behind)
    at = draw(c, x, one) * max(unreported, 1.0 - kept**packets)
    if at < unreported:
        c.missing[one] = max(1.0, np.rint(share * packets)) * tcp.PAYLOAD
        c.probes[one] = at >= last_alone


@njit(cache=True)
def slow_down(c: Table, one: int) -> None:
    """A connection hears of a loss."""
    c.lost[one] = 1
    c.window[one] = max(tcp.LEAST_WINDOW, tcp.BACKOFF * c.window[one])
    c.threshold[one] = c.window[one]
    if c.phase[one] != FINAL:
        c.phase[one] = AVOIDANCE
        c.round_end[one] = np.inf


@njit(cache=True)
def occupied(c: Table, w: Table, x: Scratch, link: int, level: int, one: int) -> float:
    """What others than `one` have in the queue of a level at a link."""
    now, limit = x.clock[0], w.limit[link]
    if now < w.full_until[link, level]:
        return limit
    held = 0.0
    other = w.first[link]
    while other >= 0:
        hop = hop_of(c, other, link)
        if other != one and c.bottleneck[other] == hop and c.level[other, hop] == level:
            held += backlog(c, other, now)
        other = c.after[other, hop]
    return min(held, limit)


@njit(cache=True)
def packet_lost(c: Table, w: Table, x: Scratch, one: int, back: bool, wait: float) -> bool:
    """Whether a packet that a connection sends now, or gets back, meets a full queue and no place.

    `wait`: how long it would wait on its way; a full queue is as long as its limit at least.
    """
    if x.counts[ISOLATES] or x.counts[MARKS]:
        return False
    now = x.clock[0]
    hops = c.hops[one]
    for hop in range(hops):
        link = c.back[one, hop] if back else c.path[one, hop]
        level = c.level[one, hops - 1 - hop if back else hop]
        if back and c.ack_level[one] >= 0:
            level = c.ack_level[one]
        long_enough = wait * w.capacity[link] >= w.limit[link] - tcp.PAYLOAD
        if now >= w.full_until[link, level] and not long_enough:
            continue
        if occupied(c, w, x, link, level, one) <= w.limit[link] - tcp.PAYLOAD:
            continue
        if draw(c, x, one) < NO_PLACE:
            return True
    return False


@njit(cache=True)
def places(at: float) -> float:
    """Packets for which there is room in a full queue."""
    return 0.0 if at < NO_PLACE else 2.0 if at >= TWO_PLACES else 1.0


@njit(cache=True)
def burst_lost(c: Table, w: Table, x: Scratch, one: int) -> float:
    """Of a window that is sent at once: the bytes that find no room, at the worst port.

    At the first port it comes in one piece, at the next ones as fast as a line brings it: there
    goes on what the others leave of the line.
    """
    if x.counts[ISOLATES] or x.counts[MARKS]:
        return 0.0
    burst = min(c.left[one], c.window[one])
    worst = 0.0
    for hop in range(c.hops[one]):
        link, level = c.path[one, hop], c.level[one, hop]
        free = max(0.0, 1.0 - w.load[link] / w.capacity[link])
        passes = burst * free if hop else min(burst, free * tcp.FREE_BYTE)
        room = w.limit[link] + passes - burst
        if room >= w.limit[link]:
            continue
        missing = occupied(c, w, x, link, level, one) - room
        if missing <= 0.0:
            continue
        stay_full(c, w, x, one, link, np.inf)
        if hop:  # the others' packets come meanwhile, and lose their part of it
            missing *= w.capacity[link] / (w.capacity[link] + w.load[link])
        worst = max(worst, min(missing, burst - places(draw(c, x, one)) * tcp.PAYLOAD))
    return min(burst, np.ceil(worst / tcp.PAYLOAD) * tcp.PAYLOAD)
