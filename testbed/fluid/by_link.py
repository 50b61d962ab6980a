"""Water-filling for thousands of connections of one level, which looks only at what changes.

The same sums in the same order as `fill_by_round` of filling.py, so the same bits. Who stops at a
full link is found in that link's list. Who is content with less than its links would give is found
through the link that stands in its way: as long as that link is unchanged it still does, so a
connection watches one such link, and is looked at again when that one has changed enough.
"""

from typing import NamedTuple

import numpy as np

from testbed.fluid.giving import give
from testbed.fluid.inner import inlined, inner, makes_arrays
from testbed.fluid.state import Floats, Integers, Scratch, Table


class Lists(NamedTuple):
    """By link of the network, or by place among the members."""

    begins: Integers  # link: of its places in `listed`
    ends: Integers
    listed: Integers  # places, link by link, each link's in the order of members
    more: Floats  # place: what its window allows it beyond what it has; stays as long as it runs
    share: Floats  # link: what each of its connections would get
    watched: Integers  # link: the first place that watches it, -1: none
    watched_next: Integers  # place: the next that watches the same link
    least: Floats  # link: no place that watches it has less `more`
    changed: Integers  # links, see `n`
    is_changed: Integers  # link
    loose: Integers  # places that watch nothing, see `n`
    n: Integers  # how many are changed, how many are loose


N_CHANGED, N_LOOSE = range(2)


@makes_arrays
def fill_by_link(c: Table, w: Table, x: Scratch, members: int, touched: int, running: int) -> None:
    k = make_lists(c, w, x, members, touched)
    while running:
        note_changes(c, w, x, k)
        content = find_content(c, w, x, k)
        if len(content):
            running -= len(content)
            for at in content:
                stop(c, w, k, x.members[at], np.inf)
            continue
        share = np.inf
        tightest = -1
        for at in range(touched):
            link = x.touched[at]
            if k.share[link] < share:
                share = k.share[link]
                tightest = link
        limited = False
        for spot in range(k.begins[tightest], k.ends[tightest]):
            at = k.listed[spot]
            if not c.frozen[x.members[at]]:
                limited |= k.more[at] < share
        kept = k.begins[tightest]
        for spot in range(k.begins[tightest], k.ends[tightest]):
            at = k.listed[spot]
            one = x.members[at]
            if c.frozen[one]:
                continue
            if limited and k.more[at] >= share:
                k.listed[kept] = at
                kept += 1
                continue
            running -= 1
            stop(c, w, k, one, share)
            for hop in range(c.hops[one]):
                if c.path[one, hop] == tightest:
                    c.bottleneck[one] = hop
                    break
        k.ends[tightest] = kept


@makes_arrays
def make_lists(c: Table, w: Table, x: Scratch, members: int, touched: int) -> Lists:
    links = len(w)
    k = Lists(
        np.empty(links, dtype=np.int64),
        np.empty(links, dtype=np.int64),
        np.empty(places_needed(c, w, x, members, touched), dtype=np.int64),
        np.empty(members),
        np.empty(links),
        np.empty(links, dtype=np.int64),
        np.empty(members, dtype=np.int64),
        np.empty(links),
        np.empty(touched, dtype=np.int64),
        np.empty(links, dtype=np.int64),
        np.empty(members, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )
    spot = 0
    for at in range(touched):
        link = x.touched[at]
        k.begins[link] = k.ends[link] = spot
        spot += w.top_count[link]
        k.watched[link] = -1
        k.least[link] = np.inf
        k.is_changed[link] = 1
        k.changed[at] = link
    k.n[N_CHANGED] = touched
    for at in range(members):
        one = x.members[at]
        if c.frozen[one]:
            continue
        k.more[at] = c.cap[one] - c.new_rate[one]
        k.loose[k.n[N_LOOSE]] = at
        k.n[N_LOOSE] += 1
        for hop in range(c.hops[one]):
            link = c.path[one, hop]
            k.listed[k.ends[link]] = at
            k.ends[link] += 1
    return k


@inner
def places_needed(c: Table, w: Table, x: Scratch, members: int, touched: int) -> int:
    """Count how many run at each link; in all, so long are the lists."""
    for at in range(touched):
        w.top_count[x.touched[at]] = 0
    total = 0
    for at in range(members):
        one = x.members[at]
        if not c.frozen[one]:
            total += c.hops[one]
            for hop in range(c.hops[one]):
                w.top_count[c.path[one, hop]] += 1
    return total


@inner
def note_changes(c: Table, w: Table, x: Scratch, k: Lists) -> None:
    """New shares of changed links; who watched one that may be in nobody's way now is loose."""
    for spot in range(k.n[N_CHANGED]):
        link = k.changed[spot]
        k.is_changed[link] = 0
        count = w.top_count[link]
        k.share[link] = max(0.0, w.residue[link]) / count if count else np.inf
        if k.watched[link] < 0 or k.least[link] * count > w.residue[link]:
            continue
        at = k.watched[link]
        while at >= 0:
            if not c.frozen[x.members[at]]:
                k.loose[k.n[N_LOOSE]] = at
                k.n[N_LOOSE] += 1
            at = k.watched_next[at]
        k.watched[link] = -1
        k.least[link] = np.inf
    k.n[N_CHANGED] = 0


@makes_arrays
def find_content(c: Table, w: Table, x: Scratch, k: Lists) -> Integers:
    """Places of those whose windows allow less than any of their links, in the order of members.

    All others watch the tightest link of those that allow less than their windows.
    """
    content = 0
    for spot in range(k.n[N_LOOSE]):
        at = k.loose[spot]
        one = x.members[at]
        watch = -1
        for hop in range(c.hops[one]):
            link = c.path[one, hop]
            if k.more[at] * w.top_count[link] > w.residue[link] and (
                watch < 0 or k.share[link] < k.share[watch]
            ):
                watch = link
        if watch < 0:
            k.loose[content] = at
            content += 1
            continue
        k.watched_next[at] = k.watched[watch]
        k.watched[watch] = at
        k.least[watch] = min(k.least[watch], k.more[at])
    k.n[N_LOOSE] = 0
    return np.sort(k.loose[:content])


@inlined
def stop(c: Table, w: Table, k: Lists, one: int, more: float) -> None:
    """A connection gets no more than this."""
    give(c, w, one, more)
    for hop in range(c.hops[one]):
        link = c.path[one, hop]
        w.top_count[link] -= 1
        if not k.is_changed[link]:
            k.is_changed[link] = 1
            k.changed[k.n[N_CHANGED]] = link
            k.n[N_CHANGED] += 1
