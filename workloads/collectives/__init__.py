"""Collectives: who sends which part of a vector to whom, after which arrivals. Data, not control.

A vector of any size is cut into equal blocks. For one rank of a group, a collective is the list of
its messages, each some blocks in a row, and the list of what it receives. Messages between the same
two ranks are sent in the order of the list and arrive in it, so the k-th that one sends to another
is the k-th that the other receives from it; one that waits holds up those behind it to that rank.

A collective is one file in this folder that ends with `COLLECTIVE = Collective(...)`; its name in
experiment files is the file's name with dashes.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

Blocks = tuple[int, int]  # the first, and how many


@dataclass(frozen=True)
class Send:
    to: int
    blocks: Blocks
    after: tuple[int, ...] = ()  # receives of this rank that must be there before


@dataclass(frozen=True)
class Receive:
    source: int
    blocks: Blocks
    adds: bool  # to what is here; otherwise it takes its place


@dataclass(frozen=True)
class Part:
    """What one rank does in a collective."""

    sends: tuple[Send, ...] = ()
    receives: tuple[Receive, ...] = ()


@dataclass(frozen=True)
class Collective:
    """`part(rank, ranks)` over `blocks(ranks)` blocks; `refuses` says why a group is too odd.

    One that `reduces` leaves the sum of all ranks' vectors with every rank: a training job can
    aggregate by it. A `ring` is one in which every rank sends each step to the next, one block,
    after the step before has arrived: simulations have a short way for that. One `by_rack` is told
    the rack of every rank instead of how many there are.
    """

    title: str
    part: Callable[[int, int], Part]
    blocks: Callable[[int], int] = lambda ranks: ranks
    reduces: bool = False
    ring: bool = False
    refuses: Callable[[int], str | None] = lambda ranks: None
    by_rack: Callable[[int, Sequence[int]], Part] | None = None
    refuses_racks: Callable[[Sequence[int]], str | None] = lambda racks: None

    def part_in(self, rank: int, ranks: int, racks: Sequence[int] = ()) -> Part:
        """Of a group of this size, whose ranks are in these racks if that is known."""
        if self.by_rack is not None and racks:
            return self.by_rack(rank, racks)
        return self.part(rank, ranks)

    def edges(self, ranks: int, racks: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Who sends to whom, each once, rank by rank."""
        if self.ring:
            return [(rank, (rank + 1) % ranks) for rank in range(ranks)]
        parts = (self.part_in(rank, ranks, racks) for rank in range(ranks))
        sends = ((rank, send.to) for rank, part in enumerate(parts) for send in part.sends)
        return list(dict.fromkeys(sends))


@cache
def available() -> dict[str, Collective]:
    """Every collective in this folder by the name used in experiment files."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        made = getattr(importlib.import_module(f"{__name__}.{module.name}"), "COLLECTIVE", None)
        if made is not None:
            found[module.name.replace("_", "-")] = made
    return found


def reducing() -> tuple[str, ...]:
    """The names of those that a training job can aggregate by."""
    return tuple(name for name, collective in available().items() if collective.reduces)


def cut(total: int, parts: int) -> list[tuple[int, int]]:
    """`total` units in `parts` spans (start, length) whose lengths differ by at most one."""
    small, larger = divmod(total, parts)
    lengths = [small + (part < larger) for part in range(parts)]
    return list(zip(accumulate(lengths[:-1], initial=0), lengths, strict=True))
