"""How long packets wait: what connections keep in the queues of links (compiled).

What a window holds beyond what is on the wire waits at the first full link of the way. Packets of
the same level, and of those behind it, wait until it is gone.
"""

from testbed.fluid import tcp
from testbed.fluid.inner import inlined, inner
from testbed.fluid.state import AVOIDANCE, FINAL, ISOLATES, SLOW_START, Scratch, Table


@inlined
def hop_of(c: Table, one: int, link: int) -> int:
    hop = 0
    while c.path[one, hop] != link:
        hop += 1
    return hop


@inlined
def left_now(c: Table, one: int, now: float) -> float:
    return c.left[one] - c.rate[one] * (now - c.touched[one])


@inlined
def ahead_of(c: Table, stream: int, now: float) -> float:
    """What a stream's feeder has sent ahead: it waits in the switch."""
    return left_now(c, stream, now) + c.queued[stream] - left_now(c, c.partner[stream], now)


@inlined
def backlog(c: Table, one: int, now: float) -> float:
    """What a connection keeps waiting at its bottleneck: its window, less what is elsewhere.

    Elsewhere is the wire, and what is there already while its acknowledgements wait.
    """
    if c.split[one]:
        return max(0.0, ahead_of(c, one, now))
    elsewhere_ns = 2.0 * c.delay[one]
    if c.phase[one] != FINAL:
        elsewhere_ns += c.wait_back[one]
    kept = window_now(c, one, now) - c.rate[one] * elsewhere_ns
    return max(0.0, min(left_now(c, one, now) + c.queued[one], kept))


@inlined
def window_now(c: Table, one: int, now: float) -> float:
    """Its window, with what it has grown by since then, as far as its receiver lets it."""
    window, rate = c.window[one], c.rate[one]
    if c.phase[one] != AVOIDANCE:
        return window
    grown = tcp.grown(window, rate * (now - c.touched[one]), c.law[one])
    held = max(window, min(grown, c.receive[one]))
    return grown if c.tuned[one] and held >= rate * tcp.MEASURABLE_NS else held


@inner
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
                ahead += backlog(c, other, now)
            elif c.phase[other] == SLOW_START and hop == 0:
                # Its window comes as a burst: some of the time there is half of one to wait for.
                ahead += 0.5 * c.window[other] * c.rate[other] / w.capacity[link]
        other = c.after[other, hop]
    # Acknowledgements are among what waits. And who waits for a message comes after it, not before.
    return min(ahead, w.limit[link]) * (1.0 + tcp.ACK_SHARE) / w.capacity[link]
