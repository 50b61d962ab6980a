"""A heap of the next event of everyone, in which an event can be moved (compiled).

One entry each, so it never holds events that no longer count. Ties go to the lower number: the
same input gives the same order on every machine.
"""

import numpy as np

from testbed.fluid.inner import inlined
from testbed.fluid.state import N_HEAP, Scratch, Table


@inlined
def _earlier(q: Table, a: int, b: int) -> bool:
    return q.time[a] < q.time[b] or (q.time[a] == q.time[b] and a < b)


@inlined
def _up(q: Table, at: int) -> None:
    order, place = q.order, q.place
    one = order[at]
    while at > 0:
        parent = (at - 1) >> 1
        other = order[parent]
        if not _earlier(q, one, other):
            break
        order[at] = other
        place[other] = at
        at = parent
    order[at] = one
    place[one] = at


@inlined
def _down(q: Table, at: int, count: int) -> None:
    order, place = q.order, q.place
    one = order[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _earlier(q, order[child + 1], order[child]):
            child += 1
        other = order[child]
        if not _earlier(q, other, one):
            break
        order[at] = other
        place[other] = at
        at = child
    order[at] = one
    place[one] = at


@inlined
def schedule(q: Table, x: Scratch, one: int, time: float) -> None:
    """The next event of `one` is at `time`, whatever it was before; infinity means none."""
    count = x.counts[N_HEAP]
    at = q.place[one]
    if time == np.inf:
        if at >= 0:
            _remove(q, x, at)
        q.time[one] = time
        return
    if at < 0:
        q.time[one] = time
        q.order[count] = one
        q.place[one] = count
        x.counts[N_HEAP] = count + 1
        _up(q, count)
        return
    before = q.time[one]
    q.time[one] = time
    if time < before:
        _up(q, at)
    else:
        _down(q, at, count)


@inlined
def _remove(q: Table, x: Scratch, at: int) -> None:
    count = x.counts[N_HEAP] - 1
    x.counts[N_HEAP] = count
    q.place[q.order[at]] = -1
    if at == count:
        return
    moved = q.order[count]
    q.order[at] = moved
    q.place[moved] = at
    _up(q, at)
    _down(q, q.place[moved], count)
