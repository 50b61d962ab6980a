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

from analysis.metrics import QUANTILES, Floats, mean, quantile

Ints = npt.NDArray[np.int64]

RESAMPLES = 2000
DRAWS_SEED = 20201116  # fixed, so that the same records always give the same report
STATISTICS = ("mean", *QUANTILES)
BATCH_CELLS = 1_000_000  # weights held in memory at once


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

    def statistics(self) -> Floats:
        quantiles = [quantile(self.values, share) for share in QUANTILES.values()]
        return np.array([mean(self.values), *quantiles])


def flows_sample(values: Floats, seed: Ints) -> Sample:
    """A sample in which every flow is its own unit; NaN (unfinished) is no value."""
    known = np.flatnonzero(~np.isnan(values))
    return Sample(values[known], known, seed)


def resample(
    samples: Sequence[Sample], seeds: int, *, paired: bool, resamples: int = RESAMPLES
) -> Floats:
    """Statistics of each sample under each draw: an array [draw, sample, statistic].

    Paired samples must have the same units. A draw that holds no value of a sample gives NaN.
    """
    generator = np.random.default_rng(DRAWS_SEED)
    drawn = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    widest = max((max(len(s.unit_seed), len(s.values)) for s in samples), default=0)
    batch = max(1, BATCH_CELLS // max(widest, 1))
    ordered = [_sorted(sample) for sample in samples]
    found = np.full((resamples, len(samples), len(STATISTICS)), np.nan)
    for begin in range(0, resamples, batch):
        times = drawn[begin : begin + batch]
        weights: npt.NDArray[np.int64] | None = None
        for index, sample in enumerate(ordered):
            if weights is None or not paired:
                weights = _unit_weights(generator, times, sample.unit_seed)
            found[begin : begin + batch, index] = _weighted_statistics(
                weights[:, sample.unit], sample.values
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
    order = np.argsort(sample.values, kind="stable")
    return Sample(sample.values[order], sample.unit[order], sample.unit_seed)


def _unit_weights(generator: np.random.Generator, times: Ints, unit_seed: Ints) -> Ints:
    """How often each unit is drawn, [draw, unit], where seed s is drawn times[draw, s] times."""
    draws, seeds = times.shape
    weights = np.zeros(draws * len(unit_seed), dtype=np.int64)
    for seed in range(seeds):
        units = np.flatnonzero(unit_seed == seed)
        if not len(units):
            continue
        row = np.repeat(np.arange(draws), times[:, seed] * len(units))
        picked = units[generator.integers(0, len(units), size=len(row))]
        weights += np.bincount(row * len(unit_seed) + picked, minlength=len(weights))
    return weights.reshape(draws, len(unit_seed))


def _weighted_statistics(weights: Ints, ordered: Floats) -> Floats:
    """Mean and quantiles of each draw; the values are sorted, weights is [draw, value]."""
    found = np.full((len(weights), len(STATISTICS)), np.nan)
    if not len(ordered):
        return found
    below = np.cumsum(weights, axis=1)
    total = below[:, -1]
    filled = total > 0
    with np.errstate(invalid="ignore"):
        found[:, 0] = np.where(filled, (weights @ ordered) / total, np.nan)
    for column, share in enumerate(QUANTILES.values(), start=1):
        rank = np.maximum(np.ceil(share * total - 1e-9), 1)
        position = np.minimum((below < rank[:, None]).sum(axis=1), len(ordered) - 1)
        found[:, column] = np.where(filled, ordered[position], np.nan)
    return found
