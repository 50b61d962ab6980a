"""Links at which nobody waits, and those that are full by far, looked at once (compiled).

Where 80,000 messages end at one instant, each asks what waits at every link behind its bottleneck:
800 connections there, of which none keeps anything. So a link that was looked at is remembered,
until something changes there. What comes out is what `wait_at` gives, to the bit.

- Quiet: all who stand there add nothing. Whoever joins without a rate and a bottleneck adds nothing
  either, and nobody's rate or bottleneck changes before the next settlement.
- Full: what they keep there at this instant, less what left since, is more than the queue holds.
"""

from testbed.fluid import tcp
from testbed.fluid.inner import inlined, inner
from testbed.fluid.queues import backlog, hop_of, wait_at
from testbed.fluid.state import ISOLATES, SLOW_START, STAMP, Scratch, Table

FEW = 16  # connections: a look at each costs as little
SURELY = 1.0 + 1e-6  # times the limit of a queue: fuller, however a sum was rounded


@inner
def known_wait(c: Table, w: Table, x: Scratch, link: int, level: int, one: int) -> float:
    """As `wait_at`."""
    if w.standing[link] < FEW or x.counts[ISOLATES]:
        return wait_at(c, w, x, link, level, one)
    stamp, now = x.counts[STAMP], x.clock[0]
    if w.quiet_at[link] == stamp:
        return 0.0
    if w.looked_at[link] != stamp or w.looked_ns[link] != now:
        look(c, w, x, link)
        if w.quiet_at[link] == stamp:
            return 0.0
    if level >= w.looked_level[link]:
        least = w.at_least[link] - (most_kept(c, one) if one >= 0 else 0.0)
        if least > SURELY * w.limit[link]:
            return w.limit[link] * (1.0 + tcp.ACK_SHARE) / w.capacity[link]
    return wait_at(c, w, x, link, level, one)


@inner
def look(c: Table, w: Table, x: Scratch, link: int) -> None:
    """Find out whether a link is quiet; else, what is waiting there at least."""
    now = x.clock[0]
    quiet = True
    kept = 0.0
    highest = -1
    other = w.first[link]
    while other >= 0:
        hop = hop_of(c, other, link)
        if c.bottleneck[other] == hop:
            quiet = False
            if not c.split[other]:
                kept += backlog(c, other, now)
                highest = max(highest, c.level[other, hop])
        elif c.phase[other] == SLOW_START and hop == 0 and c.rate[other] != 0.0:
            quiet = False
        other = c.after[other, hop]
    w.quiet_at[link] = x.counts[STAMP] if quiet else -1
    w.looked_at[link], w.looked_ns[link] = x.counts[STAMP], now
    w.at_least[link], w.looked_level[link] = kept, highest


@inlined
def most_kept(c: Table, one: int) -> float:
    """A connection keeps no more than this waiting."""
    return 0.0 if c.split[one] else c.left[one] + c.queued[one]


@inlined
def joined(c: Table, w: Table, one: int, link: int) -> None:
    if c.bottleneck[one] >= 0 or c.rate[one] != 0.0:
        disturb(w, link)


@inlined
def left(c: Table, w: Table, one: int, link: int) -> None:
    w.at_least[link] -= most_kept(c, one)


@inlined
def disturb(w: Table, link: int) -> None:
    """Something changed at a link that can add to what waits, or take from it."""
    w.quiet_at[link] = w.looked_at[link] = -1


@inner
def known_ahead(c: Table, w: Table, x: Scratch, one: int) -> float:
    """As `wait_ahead`."""
    return ahead(c, w, x, one, True)


@inner
def known_back(c: Table, w: Table, x: Scratch, one: int) -> float:
    """As `wait_back`."""
    return back(c, w, x, one, True)


@inner
def wait_ahead(c: Table, w: Table, x: Scratch, one: int) -> float:
    """How long the packets of a connection wait on their way, behind others."""
    return ahead(c, w, x, one, False)


@inner
def wait_back(c: Table, w: Table, x: Scratch, one: int) -> float:
    """How long its acknowledgements wait."""
    return back(c, w, x, one, False)


@inlined
def ahead(c: Table, w: Table, x: Scratch, one: int, known: bool) -> float:
    total = longest = 0.0
    c.busiest[one] = -1
    for hop in range(c.hops[one]):
        link, level = c.path[one, hop], c.level[one, hop]
        wait = (
            known_wait(c, w, x, link, level, one) if known else wait_at(c, w, x, link, level, one)
        )
        total += wait
        if wait > longest:
            longest = wait
            c.busiest[one] = hop
    c.wait[one] = total
    return total


@inlined
def back(c: Table, w: Table, x: Scratch, one: int, known: bool) -> float:
    total = 0.0
    hops = c.hops[one]
    for hop in range(hops):
        level = c.ack_level[one] if c.ack_level[one] >= 0 else c.level[one, hops - 1 - hop]
        link = c.back[one, hop]
        total += (
            known_wait(c, w, x, link, level, -1) if known else wait_at(c, w, x, link, level, -1)
        )
    c.wait_back[one] = total
    return total
