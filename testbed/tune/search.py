"""A plain search for the least value of a function of few numbers on logarithmic scales. Pure.

First a coarse grid, which finds the right hill; then, around the best point so far, steps to its
neighbours, half as far whenever none of them is better. Compared with Bayesian optimisation in
docs/transfer.md: as good at 25 evaluations, without a library, and the same every time.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Point = tuple[int, ...]
COARSE = {1: 5, 2: 3}  # points of the grid along each of so many axes
DIGITS = 3
LEAST_STEP = 1 / 64  # of an axis: nearer points are the same


@dataclass(frozen=True)
class TunedOption:
    """A whole number from `low` to `high`; halves and doubles are equally far."""

    name: str
    low: int
    high: int

    def at(self, share: float) -> int:
        """From 0, the least, to 1, the most; in between, numbers that people can copy."""
        if not 0 < share < 1:
            return self.low if share <= 0 else self.high
        value = self.low * (self.high / self.low) ** share
        rounded = round(value, DIGITS - 1 - math.floor(math.log10(value)))
        return min(self.high, max(self.low, int(rounded)))

    def share(self, value: int) -> float:
        span = math.log(self.high / self.low)
        return math.log(value / self.low) / span if span else 0.0


@dataclass(frozen=True)
class Tried:
    point: Point
    value: float


def least(
    axes: Sequence[TunedOption], value: Callable[[Point], float], evaluations: int
) -> list[Tried]:
    """What was tried, in this order; never more than so many, never a point twice."""
    found: dict[Point, float] = {}
    for shares in _proposals(axes, found):
        point = tuple(axis.at(share) for axis, share in zip(axes, shares, strict=True))
        if point not in found:
            found[point] = value(point)
        if len(found) >= evaluations:
            break
    return [Tried(point, value) for point, value in found.items()]


def best(tried: Sequence[Tried], count: int = 1) -> list[Tried]:
    return sorted(tried, key=lambda one: (one.value, one.point))[:count]


def _proposals(
    axes: Sequence[TunedOption], found: dict[Point, float]
) -> Iterator[tuple[float, ...]]:
    """Where to look next; `found` is filled between two of them."""
    per_axis = COARSE[len(axes)]
    # Its middle first: a search that is cut short has then seen something sensible.
    grid = itertools.product(*([at / (per_axis - 1) for at in range(per_axis)] for _ in axes))
    yield from sorted(grid, key=lambda shares: sum(abs(share - 0.5) for share in shares))
    step = 0.5 / (per_axis - 1)
    while step >= LEAST_STEP:
        centre = min(found, key=lambda point: (found[point], point))
        here = [axis.share(value) for axis, value in zip(axes, centre, strict=True)]
        for moves in _compass(len(axes)):
            shares = tuple(at + step * move for at, move in zip(here, moves, strict=True))
            if all(-1e-9 <= share <= 1 + 1e-9 for share in shares):
                yield shares
        if min(found, key=lambda point: (found[point], point)) == centre:
            step /= 2


def _compass(axes: int) -> list[tuple[int, ...]]:
    """All directions, those along one axis first."""
    moves = [moves for moves in itertools.product((-1, 0, 1), repeat=axes) if any(moves)]
    return sorted(moves, key=lambda one: sum(map(abs, one)))
