"""Water-filling where all connections have one level: nobody goes before anybody (compiled).

The same sums in the same order as `fill_by_round` of filling.py, so the same bits. Which levels are
first at a link need not be looked for, and those at a link are counted once, not in every round.
"""

import numpy as np

from testbed.fluid.giving import give
from testbed.fluid.inner import inlined, inner
from testbed.fluid.state import Scratch, Table


@inner
def fill_alike(c: Table, w: Table, x: Scratch, members: int, touched: int, running: int) -> None:
    bounded = count_running(c, w, x, members, touched)
    while running:
        share = np.inf
        tightest = -1
        for at in range(touched):
            link = x.touched[at]
            if w.top_count[link]:
                here = max(0.0, w.residue[link]) / w.top_count[link]
                if here < share:
                    share = here
                    tightest = link
        content = bounded and mark_content(c, w, x, members)
        limited = False
        if bounded and not content:
            for at in range(members):
                one = x.members[at]
                if not c.frozen[one] and hop_at(c, one, tightest) >= 0:
                    limited = limited or c.cap[one] - c.new_rate[one] < share
        for at in range(members):
            one = x.members[at]
            if content:
                if c.frozen[one] != 2:
                    continue
                give(c, w, one, np.inf)
            else:
                if c.frozen[one] or (limited and c.cap[one] - c.new_rate[one] >= share):
                    continue
                hop = hop_at(c, one, tightest)
                if hop < 0:
                    continue
                give(c, w, one, share)
                c.bottleneck[one] = hop
            running -= 1
            for hop in range(c.hops[one]):
                w.top_count[c.path[one, hop]] -= 1


@inlined
def count_running(c: Table, w: Table, x: Scratch, members: int, touched: int) -> bool:
    """Count who runs at each link; whether the window of any says how fast it may be."""
    for at in range(touched):
        w.top_count[x.touched[at]] = 0
    bounded = False
    for at in range(members):
        one = x.members[at]
        if c.frozen[one]:
            continue
        bounded = bounded or c.cap[one] < np.inf
        for hop in range(c.hops[one]):
            w.top_count[c.path[one, hop]] += 1
    return bounded


@inlined
def mark_content(c: Table, w: Table, x: Scratch, members: int) -> bool:
    """Mark (2) whose window allows less than the share at each of its links; whether there are."""
    found = False
    for at in range(members):
        one = x.members[at]
        if c.frozen[one]:
            continue
        more = c.cap[one] - c.new_rate[one]
        for hop in range(c.hops[one]):
            link = c.path[one, hop]
            if more * w.top_count[link] > w.residue[link]:
                break
        else:
            c.frozen[one] = 2
            found = True
    return found


@inlined
def hop_at(c: Table, one: int, link: int) -> int:
    for hop in range(c.hops[one]):
        if c.path[one, hop] == link:
            return hop
    return -1
