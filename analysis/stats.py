"""How sure are we: 95 % intervals by resampling, for single metrics and for comparisons.

The bootstrap is hierarchical: it first draws seeds with replacement, then, within each drawn
seed, units (flows, or iterations). So an interval is as wide as the seeds and the flows make it
together. With one seed only its flows are drawn, and the interval says nothing about other
seeds.

Two policies are compared on the same draws. A flow exists under both policies, so one draw picks
the same flows for both (paired). An iteration has no twin, so only the drawn seeds are shared.

Two definitions of the change from `first` to `policy`:
    change            (policy - first) / first     what most papers print; -50 % is half the time
    reduction_thesis  (first - policy) / policy    the thesis's "FCT reduction"; the same halving
                                                   is +100 %
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.metrics import Floats, Statistic

Ints = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]  # small whole numbers: exact, and half the memory to move

RESAMPLES = 2000
FEWEST_UNITS = 5  # redrawing fewer only looks certain, so they get no interval
DRAWS_SEED = 20201116  # fixed, so that the same records always give the same report
BATCH_CELLS = 200_000  # weights worked on at once: few enough to stay in the processor's cache


@dataclass(frozen=True)
class Estimate:
    """A point value with its 95 % interval."""

    point: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    change: Estimate
    reduction_thesis: Estimate
    pairs: int


@dataclass(frozen=True)
class Sample:
    """Values; each belongs to a unit that is drawn as a whole, and each unit to a seed."""

    values: Floats
    unit: Ints
    unit_seed: Ints

    @property
    def units(self) -> int:
        """How many of its units have a value."""
        return len(np.unique(self.unit))


def flows_sample(values: Floats, seed: Ints) -> Sample:
    """A sample in which every flow is its own unit; NaN (unfinished) is no value."""
    known = np.flatnonzero(~np.isnan(values))
    return Sample(values[known], known, seed)


def resample(
    samples: Sequence[Sample],
    seeds: int,
    statistics: Sequence[Statistic],
    *,
    paired: bool,
    resamples: int = RESAMPLES,
) -> Floats:
    """Statistics of each sample under each draw: an array [draw, sample, statistic].

    Paired samples must have the same units. A draw that holds no value of a sample gives NaN.
    """
    generator = np.random.default_rng(DRAWS_SEED)
    drawn = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    widest = max((max(len(s.unit_seed), len(s.values)) for s in samples), default=0)
    batch = max(1, BATCH_CELLS // max(widest, 1))
    ordered = [_sorted(sample) for sample in samples]
    found = np.full((resamples, len(samples), len(statistics)), np.nan)
    for begin in range(0, resamples, batch):
        times = drawn[begin : begin + batch]
        weights: Weights | None = None
        for index, sample in enumerate(ordered):
            if weights is None or not paired:
                weights = _unit_weights(generator, times, sample.unit_seed)
            found[begin : begin + batch, index] = _weighted_statistics(
                np.take(weights, sample.unit, axis=1),
                sample.values,
                _block(len(samples[index].values)),
                statistics,
            )
    return found


def estimate(point: float, draws: Floats) -> Estimate:
    """The 95 % percentile interval, widened where needed to hold the point value itself."""
    known = draws[np.isfinite(draws)]
    if not len(known) or not np.isfinite(point):
        return Estimate(point, float("nan"), float("nan"))
    low, high = np.quantile(known, [0.025, 0.975])
    return Estimate(point, min(float(low), point), max(float(high), point))


def change(
    policy_point: float, first_point: float, policy: Floats, first: Floats, pairs: int
) -> Change:
    """Both definitions of the change, from point values and from the statistics of each draw."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = estimate(
            float(np.divide(policy_point, first_point)) - 1, np.divide(policy, first) - 1
        )
    return Change(relative, _as_thesis(relative), pairs)


def _as_thesis(relative: Estimate) -> Estimate:
    """(first - policy) / policy is 1 / (1 + change) - 1: falling, so the ends swap."""

    def turn(value: float) -> float:
        return 1 / (1 + value) - 1 if value > -1 else float("nan")

    return Estimate(turn(relative.point), turn(relative.high), turn(relative.low))


def _sorted(sample: Sample) -> Sample:
    """The values in rising order, filled up to whole blocks with values that are never drawn."""
    order = np.argsort(sample.values, kind="stable")
    missing = -len(order) % _block(len(order))
    never = len(sample.unit_seed)  # the extra column of _unit_weights
    return Sample(
        np.concatenate([sample.values[order], np.zeros(missing)]),
        np.concatenate([sample.unit[order], np.full(missing, never)]),
        sample.unit_seed,
    )


def _block(count: int) -> int:
    """How many values make a block: about the square root, so that blocks are as many."""
    return 1 << (count.bit_length() // 2)


def _unit_weights(generator: np.random.Generator, times: Ints, unit_seed: Ints) -> Weights:
    """How often each unit is drawn, [draw, unit], where seed s is drawn times[draw, s] times.

    One more column stays 0: the unit of values that are only there to fill up.
    """
    draws, seeds = times.shape
    width = len(unit_seed) + 1
    cells = [np.zeros(0, dtype=np.int64)]
    for seed in range(seeds):
        units = np.flatnonzero(unit_seed == seed)
        if len(units):
            row = np.repeat(np.arange(draws), times[:, seed] * len(units))
            picked = generator.integers(0, len(units), size=len(row))
            adjacent = units[-1] - units[0] + 1 == len(units)
            cells.append(row * width + (picked + units[0] if adjacent else units[picked]))
    counts = np.bincount(np.concatenate(cells), minlength=draws * width)
    return counts.astype(np.float32).reshape(draws, width)


def _weighted_statistics(
    weights: Weights, ordered: Floats, block: int, statistics: Sequence[Statistic]
) -> Floats:
    """Statistics of each draw; the values are sorted, weights is [draw, value].

    A quantile is found by its block first and then within it: no sum runs over all the values.
    """
    draws, count = weights.shape
    found = np.full((draws, len(statistics)), np.nan)
    if not count:
        return found
    blocks = weights.reshape(draws, count // block, block)
    below = np.cumsum(blocks.sum(axis=2), axis=1, dtype=np.float64)
    total = below[:, -1]
    filled = total > 0
    every = np.arange(draws)
    for column, statistic in enumerate(statistics):
        if statistic.share is None:
            with np.errstate(invalid="ignore"):
                found[:, column] = np.where(filled, (weights @ ordered) / total, np.nan)
            continue
        rank = np.maximum(np.ceil(statistic.share * total - 1e-9), 1)
        at = np.minimum((below < rank[:, None]).sum(axis=1), count // block - 1)
        before = below[every, at] - blocks[every, at].sum(axis=1)
        inside = before[:, None] + np.cumsum(blocks[every, at], axis=1)
        position = at * block + np.minimum((inside < rank[:, None]).sum(axis=1), block - 1)
        found[:, column] = np.where(filled, ordered[position], np.nan)
    return found
