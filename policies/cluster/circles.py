"""CASSINI's circles: when jobs on one link send, and how to turn them so that they do not at once.

A job is silent while it computes and then sends until its iteration is over, again and again: an
iteration is a circle. Jobs of other periods meet on a circle of the least common multiple. Time is
cut into slots; a slot is 5 degrees of the shortest iteration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from policies.cluster.scheduler import Floats

ANGLES = 72  # of a circle: 5 degrees each
MOST_SLOTS = 72 * 60  # of a common circle: periods that do not meet within it are said not to
MOST_TRIED = 72 * 72  # as many turns are all tried; above that, one job after the other is turned


@dataclass(frozen=True)
class Circle:
    """One job on one link, in slots: it is silent, and then sends at this rate until its end."""

    period: int
    sends: int
    rate_bps: float

    def demand(self, slots: int, turned: int) -> Floats:
        """Over a common circle, begun so many slots later."""
        at = (np.arange(slots) - turned) % self.period
        return np.where(at >= self.period - self.sends, self.rate_bps, 0.0)


def common(circles: Sequence[Circle]) -> int | None:
    """The least common multiple of their periods; None: they hardly ever meet again."""
    slots = math.lcm(*(circle.period for circle in circles))
    return slots if slots <= MOST_SLOTS else None


def score(demand: Floats, capacity_bps: float) -> float:
    """1: the link is never asked for more than it has; less by what is asked beyond, on average."""
    beyond = np.maximum(0.0, demand - capacity_bps).sum(axis=-1)
    return float(1 - beyond / (demand.shape[-1] * capacity_bps))


def turned(circles: Sequence[Circle], capacity_bps: float) -> tuple[float, tuple[int, ...]]:
    """The best score of two or more, and by how much each begins later; the first stays.

    Among equal scores it is the middle one of the longest row of turns, so that jobs that drift a
    little do not meet at once.
    """
    slots = common(circles)
    if slots is None:
        return 0.0, (0,) * len(circles)
    if math.prod(circle.period for circle in circles[1:]) <= MOST_TRIED:
        return _all_tried(circles, capacity_bps, slots)
    return _one_by_one(circles, capacity_bps, slots)


def _scores(others: Floats, circle: Circle, capacity_bps: float) -> Floats:
    """Of every turn of one circle beside what all others ask for."""
    slots = others.shape[-1]
    own = np.array([circle.demand(slots, turn) for turn in range(circle.period)])
    beyond = np.maximum(0.0, others + own - capacity_bps).sum(axis=1)
    found: Floats = (1 - beyond / (slots * capacity_bps)).round(9)
    return found


def _all_tried(
    circles: Sequence[Circle], capacity_bps: float, slots: int
) -> tuple[float, tuple[int, ...]]:
    best: tuple[float, tuple[int, ...]] = (-math.inf, ())
    first, *between, last = circles
    for turns in product(*(range(circle.period) for circle in between)):
        others = first.demand(slots, 0)
        for circle, turn in zip(between, turns, strict=True):
            others = others + circle.demand(slots, turn)
        scores = _scores(others, last, capacity_bps)
        if scores.max() > best[0]:
            best = float(scores.max()), (0, *turns, middle(scores))
    return best


def _one_by_one(
    circles: Sequence[Circle], capacity_bps: float, slots: int
) -> tuple[float, tuple[int, ...]]:
    """Each in its turn is put where it disturbs the others the least, until nothing gets better."""
    turns = [0] * len(circles)
    best = -math.inf
    while True:
        for number in range(1, len(circles)):
            own = [circle.demand(slots, turn) for circle, turn in zip(circles, turns, strict=True)]
            others = sum(own, np.zeros(slots)) - own[number]
            scores = _scores(others, circles[number], capacity_bps)
            turns[number] = middle(scores)
        whole = float(scores.max())
        if whole <= best:
            return best, tuple(turns)
        best = whole


def middle(scores: Floats) -> int:
    """Of the longest row of best turns, which may go on from the last to the first, the middle."""
    good = scores == scores.max()
    if good.all():
        return 0
    start = int(np.flatnonzero(~good)[0])  # no row goes over it
    longest, begun, length = (0, 0), 0, 0
    for step in range(len(good)):
        if good[(start + step) % len(good)]:
            begun, length = (step, 1) if not length else (begun, length + 1)
            longest = max(longest, (length, -begun))
        else:
            length = 0
    return (start - longest[1] + longest[0] // 2) % len(good)
