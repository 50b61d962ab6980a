"""Collectives in three stages: within a rack, across racks, within the rack again."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from workloads.collectives import Part, Receive, Send, all_gather, reduce_scatter


def by_racks(rank: int, racks: Sequence[int], across: Callable[[int, int], Part]) -> Part:
    """Every rack has k ranks; `across` is played by those of the same place in all racks."""
    members: dict[int, list[int]] = defaultdict(list)
    for one, rack in enumerate(racks):
        members[rack].append(one)
    rows = list(members.values())
    here = next(at for at, row in enumerate(rows) if rank in row)
    own = rows[here]
    place, size, count = own.index(rank), len(own), len(rows)
    column = [row[place] for row in rows]
    first = (place + 1) % size * count  # of the blocks that reduce-scatter leaves with it
    return _in_turn(
        _over(reduce_scatter.part(place, size), own, 0, count),
        _over(across(here, count) if count > 1 else Part(), column, first, 1),
        _over(all_gather.part(place, size), own, 0, count),
    )


def refuses_racks(racks: Sequence[int]) -> str | None:
    sizes = sorted(set(Counter(racks).values()))
    if len(sizes) <= 1:
        return None
    return (
        f"needs equally many workers in every rack; found {sizes[0]} in one, {sizes[-1]} in another"
    )


def _over(part: Part, ranks: Sequence[int], first: int, width: int) -> Part:
    """A part played by these ranks, whose blocks are `width` ones from `first` on."""

    def blocks(some: tuple[int, int]) -> tuple[int, int]:
        return first + some[0] * width, some[1] * width

    return Part(
        tuple(Send(ranks[one.to], blocks(one.blocks), one.after) for one in part.sends),
        tuple(Receive(ranks[one.source], blocks(one.blocks), one.adds) for one in part.receives),
    )


def _in_turn(*stages: Part) -> Part:
    """One after another: what a stage sends waits for all that those before it receive.

    All of them: who sums for others may hear from other racks before it does from its own.
    """
    sends: list[Send] = []
    receives: list[Receive] = []
    for stage in stages:
        begin = len(receives)
        for one in stage.sends:
            after = (*range(begin), *(begin + at for at in one.after))
            sends.append(Send(one.to, one.blocks, after))
        receives += stage.receives
    return Part(tuple(sends), tuple(receives))
