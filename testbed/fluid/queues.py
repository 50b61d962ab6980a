"""How long packets wait: what connections keep in the queues of links (compiled).

What a window holds beyond what is on the wire waits at the first full link of the way. Packets of
the same level, and of those behind it, wait until it is gone.
"""

from numba import njit

from testbed.fluid import tcp
from testbed.fluid.state import AVOIDANCE, ISOLATES, SLOW_START, Scratch, Table


@njit(cache=True)
def hop_of(c: Table, one: int, link: int) -> int:
    hop = 0
    while c.path[one, hop] != link:
        hop += 1
    return hop


@njit(cache=True)
def left_now(c: Table, one: int, now: float) -> float:
    return c.left[one] - c.rate[one] * (now - c.touched[one])


@njit(cache=True)
def ahead_of(c: Table, stream: int, now: float) -> float:
    """What a stream's feeder has sent ahead: it waits in the switch."""
    return left_now(c, stream, now) + c.queued[stream] - left_now(c, c.partner[stream], now)


@njit(cache=True)
def backlog(c: Table, one: int, hop: int, now: float) -> float:
    """What a connection keeps waiting at its bottleneck: its window, less what is on the wire."""
    if c.split[one]:
        return max(0.0, ahead_of(c, one, now))
    kept = window_now(c, one, now) - c.rate[one] * 2.0 * c.delay[one]
    if hop == 0 and c.flow[one] < 0 and not c.in_ring[one]:
        kept = min(kept, c.rate[one] * tcp.OWN_QUEUE_NS)
    return max(0.0, min(left_now(c, one, now), kept))


@njit(cache=True)
def window_now(c: Table, one: int, now: float) -> float:
    """Its window, with what it has grown by since it was last looked at."""
    window, rate = c.window[one], c.rate[one]
    if c.phase[one] != AVOIDANCE:
        return window
    sent = rate * (now - c.touched[one])
    if c.flow[one] < 0:
        return tcp.stream_window(window, sent)
    if c.lost_until[one] > 0.0:
        return window
    return tcp.flow_window(window, sent, rate, c.bottleneck[one] == 0)


@njit(cache=True)
def wait_at(
    c: Table,
    w: Table,
    x: Scratch,
    link: int,
    level: int,
    one: int,
) -> float:
    """How long a packet of this level waits at a link behind others than `one`."""
    if x.counts[ISOLATES]:
        return 0.0
    now = x.clock[0]
    ahead = 0.0
    other = w.first[link]
    while other >= 0:
        hop = hop_of(c, other, link)
        if other != one and c.level[other, hop] <= level:
            if c.bottleneck[other] == hop:
                ahead += backlog(c, other, hop, now)
            elif c.phase[other] == SLOW_START and hop == 0:
                # Its window comes as a burst: some of the time there is half of one to wait for.
                ahead += 0.5 * c.window[other] * c.rate[other] / w.capacity[link]
        other = c.after[other, hop]
    # Acknowledgements are among what waits. And who waits for a message comes after it, not before.
    return min(ahead, w.limit[link]) * (1.0 + tcp.ACK_SHARE) / w.capacity[link]


@njit(cache=True)
def wait_ahead(c: Table, w: Table, x: Scratch, one: int) -> float:
    """How long the packets of a connection wait on their way, behind others."""
    total = longest = 0.0
    c.busiest[one] = -1
    for hop in range(c.hops[one]):
        wait = wait_at(c, w, x, c.path[one, hop], c.level[one, hop], one)
        total += wait
        if wait > longest:
            longest = wait
            c.busiest[one] = hop
    c.wait[one] = total
    return total


@njit(cache=True)
def wait_back(c: Table, w: Table, x: Scratch, one: int) -> float:
    """How long its acknowledgements wait."""
    total = 0.0
    hops = c.hops[one]
    for hop in range(hops):
        total += wait_at(c, w, x, c.back[one, hop], c.level[one, hops - 1 - hop], -1)
    return total
