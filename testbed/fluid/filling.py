"""Water-filling: rates that are max-min fair within a level, strict between levels (compiled).

Fair is by weight. The plain way looks at every connection once for each full link. Where all have
one level and one weight, alike.py takes its place, and by_link.py where they are many; the results
are the same to the last bit.
"""

import numpy as np

from testbed.fluid.alike import fill_alike
from testbed.fluid.by_link import fill_by_link
from testbed.fluid.giving import give
from testbed.fluid.inner import inlined, inner
from testbed.fluid.state import Scratch, Table

LEVELS = 64
MANY = 512  # connections: below, lists by link cost more than they save


@inner
def fill(c: Table, w: Table, x: Scratch, members: int, touched: int, only: int) -> None:
    """Water-filling: raise all rates together, each by its weight; at a full link they stop.

    At each link the first level that has somebody goes before the rest. With `only`, just that
    level takes part. Adds to `new_rate`.
    """
    running = take_part(c, x, members, only)
    if not are_alike(c, x, members):
        fill_by_round(c, w, x, members, touched, running)
    elif running >= MANY:
        fill_by_link(c, w, x, members, touched, running)
    else:
        fill_alike(c, w, x, members, touched, running)


@inlined
def take_part(c: Table, x: Scratch, members: int, only: int) -> int:
    """Freeze all but those who are filled; how many these are."""
    running = 0
    for at in range(members):
        one = x.members[at]
        takes_part = only < 0 or c.level[one, 0] == only
        c.frozen[one] = 0 if takes_part else 1
        running += takes_part
    return running


@inlined
def are_alike(c: Table, x: Scratch, members: int) -> bool:
    """Whether all who are filled have one weight, and the same level at all of their links."""
    same = -1
    weight = 0.0
    for at in range(members):
        one = x.members[at]
        if c.frozen[one]:
            continue
        if same < 0:
            same = c.level[one, 0]
            weight = c.weight[one]
        if c.weight[one] != weight:
            return False
        for hop in range(c.hops[one]):
            if c.level[one, hop] != same:
                return False
    return True


@inner
def fill_by_round(c: Table, w: Table, x: Scratch, members: int, touched: int, running: int) -> None:
    """The plain way: everybody is looked at again for every link that is full."""
    while running:
        for at in range(touched):
            link = x.touched[at]
            w.top[link] = LEVELS
            w.top_weight[link] = 0.0
            w.clear[link] = 1
        for at in range(members):
            one = x.members[at]
            if c.frozen[one]:
                continue
            for hop in range(c.hops[one]):
                link, level = c.path[one, hop], c.level[one, hop]
                if level < w.top[link]:
                    w.top[link] = level
                    w.top_weight[link] = c.weight[one]
                elif level == w.top[link]:
                    w.top_weight[link] += c.weight[one]
        anybody = clear_links(c, w, x, members)
        if not anybody:
            # Everybody is behind somebody somewhere: let the tightest link of all go first.
            for at in range(touched):
                w.clear[x.touched[at]] = 1
        share = np.inf
        tightest = -1
        for at in range(touched):
            link = x.touched[at]
            if w.top_weight[link] and w.clear[link]:
                here = max(0.0, w.residue[link]) / w.top_weight[link]
                if here < share:
                    share = here
                    tightest = link
        # Whoever's window allows less than the share at its links is content with that.
        content = False
        if anybody:
            for at in range(members):
                one = x.members[at]
                more = c.cap[one] - c.new_rate[one]
                if c.frozen[one] or not goes_now(c, w, one):
                    continue
                for hop in range(c.hops[one]):
                    link = c.path[one, hop]
                    if more * w.top_weight[link] > w.residue[link] * c.weight[one]:
                        break
                else:
                    content = True
                    running -= 1
                    c.frozen[one] = 2
        if content:
            for at in range(members):
                if c.frozen[x.members[at]] == 2:
                    give(c, w, x.members[at], np.inf)
            continue
        limited = False
        for at in range(members):
            one = x.members[at]
            if not c.frozen[one] and first_at(c, w, one, tightest) >= 0:
                limited |= c.cap[one] - c.new_rate[one] < share * c.weight[one]
        for at in range(members):
            one = x.members[at]
            part = share * c.weight[one]
            if c.frozen[one] or (limited and c.cap[one] - c.new_rate[one] >= part):
                continue
            hop = first_at(c, w, one, tightest)
            if hop >= 0:
                running -= 1
                give(c, w, one, part)
                c.bottleneck[one] = hop


@inner
def first_at(c: Table, w: Table, one: int, link: int) -> int:
    """The hop at which a connection is at this link, among the first there; else -1."""
    for hop in range(c.hops[one]):
        if c.path[one, hop] == link and c.level[one, hop] == w.top[link]:
            return hop
    return -1


@inner
def clear_links(c: Table, w: Table, x: Scratch, members: int) -> bool:
    """Find the links whose first level can be shared out now; True if that concerns anybody.

    A connection that is first here may be behind others elsewhere. Until those have theirs, nobody
    knows what it leaves for the others here: so they wait, and those that are first with them.
    """
    again = True
    while again:
        again = anybody = False
        for at in range(members):
            one = x.members[at]
            if c.frozen[one]:
                continue
            if goes_now(c, w, one):
                anybody = True
                continue
            for hop in range(c.hops[one]):
                link = c.path[one, hop]
                if w.clear[link] and c.level[one, hop] == w.top[link]:
                    w.clear[link] = 0
                    again = True
    return anybody


@inner
def goes_now(c: Table, w: Table, one: int) -> bool:
    for hop in range(c.hops[one]):
        link = c.path[one, hop]
        if not w.clear[link] or c.level[one, hop] != w.top[link]:
            return False
    return True
