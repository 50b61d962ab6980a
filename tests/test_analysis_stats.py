"""Intervals: properties that must hold for any data, and cover that must hold for known data."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from analysis import stats
from analysis.metrics import MEAN, Floats, Statistic
from analysis.stats import Change, Ints, Sample

FEW = 200  # resamples where only a property is looked at
STATISTICS = (MEAN, Statistic(0.5), Statistic(0.95), Statistic(0.99), Statistic(0.999))


def compare(policy: Floats, first: Floats, seed: Ints, resamples: int = FEW) -> list[Change]:
    samples = [stats.flows_sample(values, seed) for values in (policy, first)]
    seeds = int(seed.max()) + 1
    draws = stats.resample(samples, seeds, STATISTICS, paired=True, resamples=resamples)
    return [
        stats.change(
            *(statistic.of(sample.values) for sample in samples),
            draws[:, 0, at],
            draws[:, 1, at],
            len(seed),
        )
        for at, statistic in enumerate(STATISTICS)
    ]


@some.composite
def paired_flows(draw: some.DrawFn) -> tuple[Floats, Floats, Ints]:
    count = draw(some.integers(1, 40))
    times = some.lists(some.floats(1.0, 1e9), min_size=count, max_size=count)
    seed = draw(some.lists(some.integers(0, 2), min_size=count, max_size=count))
    return np.array(draw(times)), np.array(draw(times)), np.array(seed, dtype=np.int64)


@given(paired_flows())
@settings(deadline=None)
def test_an_interval_contains_its_point(data: tuple[Floats, Floats, Ints]) -> None:
    for found in compare(*data):
        for estimate in (found.change, found.reduction_thesis):
            tolerance = 1e-9 * (1 + abs(estimate.point))
            assert estimate.low - tolerance <= estimate.point <= estimate.high + tolerance


@given(paired_flows(), some.sampled_from([1e-3, 1000.0, 1024.0]))
@settings(deadline=None)
def test_the_unit_of_time_does_not_matter(data: tuple[Floats, Floats, Ints], scale: float) -> None:
    policy, first, seed = data
    for found, scaled in zip(
        compare(policy, first, seed), compare(scale * policy, scale * first, seed), strict=True
    ):
        for end in ("point", "low", "high"):
            expected = pytest.approx(getattr(found.change, end), rel=1e-9, abs=1e-9)
            assert getattr(scaled.change, end) == expected


@given(paired_flows())
@settings(deadline=None)
def test_identical_policies_do_not_change_at_all(data: tuple[Floats, Floats, Ints]) -> None:
    _, first, seed = data
    for found in compare(first.copy(), first, seed):
        assert (found.change.low, found.change.point, found.change.high) == (0, 0, 0)


@given(paired_flows(), some.floats(0.1, 10))
@settings(deadline=None)
def test_a_constant_factor_is_found_without_doubt(
    data: tuple[Floats, Floats, Ints], factor: float
) -> None:
    _, first, seed = data
    for found in compare(factor * first, first, seed):
        assert found.change.point == pytest.approx(factor - 1)
        assert found.change.high - found.change.low == pytest.approx(0, abs=1e-6)


def test_both_definitions_of_a_halving() -> None:
    first = np.array([10.0, 20.0, 40.0])
    found = compare(first / 2, first, np.zeros(3, dtype=np.int64))[0]
    assert found.change.point == -0.5
    assert found.reduction_thesis.point == 1.0


@pytest.mark.parametrize("block", [1, 4, 8, 56])
def test_weighted_statistics_are_those_of_the_drawn_values(block: int) -> None:
    generator = np.random.default_rng(1)
    values = np.sort(generator.exponential(size=56))
    weights = generator.integers(0, 4, size=(20, 56))
    found = stats._weighted_statistics(weights.astype(np.float32), values, block, STATISTICS)
    for row, drawn in zip(found, weights, strict=True):
        sample = np.repeat(values, drawn)
        assert row[0] == pytest.approx(sample.mean())
        shares = (0.5, 0.95, 0.99, 0.999)
        expected = [np.quantile(sample, q, method="inverted_cdf") for q in shares]
        assert list(row[1:]) == expected


def test_draws_are_as_large_as_the_seeds_they_hold() -> None:
    times = np.array([[2, 0], [1, 1], [0, 2]])
    weights = stats._unit_weights(np.random.default_rng(0), times, np.array([0, 0, 0, 1]))
    assert weights[:, :3].sum(axis=1).tolist() == [6, 3, 0]
    assert weights[:, 3].tolist() == [0, 1, 2]


def test_differences_between_seeds_widen_the_interval() -> None:
    generator = np.random.default_rng(3)
    first = generator.exponential(size=600) + 1
    seed = np.repeat(np.arange(3), 200)
    steady, moody = first * 0.7, first * np.array([0.5, 0.7, 0.9])[seed]
    narrow, wide = compare(steady, first, seed)[0].change, compare(moody, first, seed)[0].change
    assert wide.high - wide.low > 0.1 > narrow.high - narrow.low


def test_unfinished_flows_are_no_values() -> None:
    sample = stats.flows_sample(np.array([1.0, np.nan, 3.0]), np.zeros(3, dtype=np.int64))
    assert sample.values.tolist() == [1, 3]
    assert sample.unit.tolist() == [0, 2]


def test_no_value_at_all_gives_no_interval() -> None:
    empty = Sample(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    draws = stats.resample([empty], 2, [MEAN], paired=True, resamples=5)
    found = stats.estimate(float("nan"), draws[:, 0, 0])
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(200):
        first = generator.exponential(size=80) + 1
        policy = first * 0.8 * generator.uniform(0.5, 1.5, size=80)
        found = compare(policy, first, np.zeros(80, dtype=np.int64))[0].change
        hits += found.low <= -0.2 <= found.high
    assert 180 <= hits <= 199


def test_the_same_records_give_the_same_interval() -> None:
    values = np.random.default_rng(0).exponential(size=50)
    seed = np.arange(50) % 3
    assert compare(values[::-1].copy(), values, seed) == compare(values[::-1].copy(), values, seed)


def test_a_hundred_thousand_flows_are_resampled_in_seconds() -> None:
    generator = np.random.default_rng(5)
    values = generator.exponential(size=100_000)
    begin = time.process_time()
    compare(values * 0.9, values, np.arange(100_000) % 3, stats.RESAMPLES)
    assert time.process_time() - begin < 60
