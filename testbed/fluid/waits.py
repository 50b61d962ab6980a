"""What windows allow thousands of connections: what waits at a link is worked out once (compiled).

The plain way (`limit_by_window`) walks the list of each link on the way of each connection, so 800
connections to one server look at each other 640,000 times. Here a link's list is walked once, and
what each connection keeps waiting there stands in a row: the same sums in the same order, so the
same bits. Where a queue is full by far, nothing is summed: what waits there is its limit.
"""

from typing import NamedTuple

import numpy as np

from testbed.fluid import tcp
from testbed.fluid.inner import inlined, inner, makes_arrays
from testbed.fluid.queues import backlog, hop_of, wait_at
from testbed.fluid.quiet import SURELY, wait_ahead, wait_back
from testbed.fluid.state import AVOIDANCE, ISOLATES, SLOW_START, Floats, Integers, Scratch, Table

MANY = 512  # connections: below, rows cost more than they save
LOOKS = 4096  # at connections in lists, to which the same applies


class Rows(NamedTuple):
    begins: Integers  # link: of its row, -1: it has none yet
    highest: Integers  # link: the last level that anybody has there
    total: Floats  # link: the sum of its row, if fresh
    fresh: Integers  # link
    about: Floats  # link: the sum of its row, in whatever order
    values: Floats  # bytes, row by row in the order of links' lists
    spot: Integers  # connection: of what it keeps at its bottleneck, -1: that link has no row yet
    used: Integers  # how long all rows are


@inner
def limit_by_windows(c: Table, w: Table, x: Scratch, members: int) -> None:
    """The rates that windows allow the members, in their order."""
    if not x.counts[ISOLATES] and worth_rows(c, w, x, members):
        limit_by_row(c, w, x, members)
        return
    for at in range(members):
        limit_by_window(c, w, x, x.members[at])


@inner
def worth_rows(c: Table, w: Table, x: Scratch, members: int) -> bool:
    """Whether they are many, or stand in long lists: as often would the plain way look at one."""
    if members >= MANY:
        return True
    enough = LOOKS + len(w) + len(c) // 4
    looks = 0
    for at in range(members):
        one = x.members[at]
        if c.phase[one] == AVOIDANCE:
            for hop in range(c.hops[one]):
                looks += w.standing[c.path[one, hop]] + w.standing[c.back[one, hop]]
            if looks > enough:
                return True
    return False


@inner
def limit_by_window(c: Table, w: Table, x: Scratch, one: int) -> None:
    """A window per round trip; in slow start the round says it, in its last round nothing does."""
    if c.phase[one] == AVOIDANCE:
        rtt = 2.0 * c.delay[one] + wait_ahead(c, w, x, one) + wait_back(c, w, x, one)
        c.cap[one] = c.window[one] / rtt


@makes_arrays
def limit_by_row(c: Table, w: Table, x: Scratch, members: int) -> None:
    length = 0
    for link in range(len(w)):
        length += w.standing[link]
    r = Rows(
        np.full(len(w), -1, dtype=np.int64),
        np.empty(len(w), dtype=np.int64),
        np.empty(len(w)),
        np.empty(len(w), dtype=np.int64),
        np.empty(len(w)),
        np.empty(length),
        np.full(len(c), -1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    for at in range(members):
        one = x.members[at]
        if c.phase[one] != AVOIDANCE:
            continue
        ahead = longest = 0.0
        c.busiest[one] = -1
        hops = c.hops[one]
        for hop in range(hops):
            wait = wait_in_row(c, w, x, r, c.path[one, hop], c.level[one, hop], one)
            ahead += wait
            if wait > longest:
                longest = wait
                c.busiest[one] = hop
        c.wait[one] = ahead
        back = 0.0
        for hop in range(hops):
            level = c.ack_level[one] if c.ack_level[one] >= 0 else c.level[one, hops - 1 - hop]
            back += wait_in_row(c, w, x, r, c.back[one, hop], level, -1)
        c.wait_back[one] = back
        c.cap[one] = c.window[one] / (2.0 * c.delay[one] + ahead + back)
        # What it keeps waiting depends on how long its acknowledgements do.
        spot = r.spot[one]
        if spot >= 0:
            link = c.path[one, c.bottleneck[one]]
            before = r.values[spot]
            r.values[spot] = backlog(c, one, x.clock[0])
            r.about[link] += r.values[spot] - before
            r.fresh[link] = 0


@inlined
def wait_in_row(c: Table, w: Table, x: Scratch, r: Rows, link: int, level: int, one: int) -> float:
    """As `wait_at`."""
    if r.begins[link] < 0:
        make_row(c, w, x, r, link)
    if r.highest[link] > level:
        return wait_at(c, w, x, link, level, one)
    begin = r.begins[link]
    end = begin + w.standing[link]
    own = one >= 0 and begin <= r.spot[one] < end
    others = r.about[link] - r.values[r.spot[one]] if own else r.about[link]
    if others > SURELY * w.limit[link]:
        ahead = w.limit[link]
    elif own:
        ahead = 0.0
        for spot in range(begin, r.spot[one]):
            ahead += r.values[spot]
        for spot in range(r.spot[one] + 1, end):
            ahead += r.values[spot]
    else:
        if not r.fresh[link]:
            total = 0.0
            for spot in range(begin, end):
                total += r.values[spot]
            r.total[link] = r.about[link] = total
            r.fresh[link] = 1
        ahead = r.total[link]
    return min(ahead, w.limit[link]) * (1.0 + tcp.ACK_SHARE) / w.capacity[link]


@inner
def make_row(c: Table, w: Table, x: Scratch, r: Rows, link: int) -> None:
    now = x.clock[0]
    spot = r.used[0]
    r.begins[link] = spot
    r.highest[link] = -1
    r.fresh[link] = 0
    r.about[link] = 0.0
    other = w.first[link]
    while other >= 0:
        hop = hop_of(c, other, link)
        r.values[spot] = 0.0
        if c.bottleneck[other] == hop:
            r.values[spot] = backlog(c, other, now)
            r.spot[other] = spot
        elif c.phase[other] == SLOW_START and hop == 0:
            r.values[spot] = 0.5 * c.window[other] * c.rate[other] / w.capacity[link]
        r.about[link] += r.values[spot]
        r.highest[link] = max(r.highest[link], c.level[other, hop])
        spot += 1
        other = c.after[other, hop]
    r.used[0] = spot
