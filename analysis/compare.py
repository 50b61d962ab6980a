"""Puts the records of all runs side by side: what each policy measured, and the changes between.

Flows are paired by (seed, flow number): the schedule is the same under every policy. Iterations
have no twin, so they are paired by seed alone; the workers of one iteration wait for each other,
so they are drawn together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from analysis import metrics, stats
from analysis.folder import Job, Results
from analysis.stats import Change, Estimate, Sample
from testbed.errors import RunFailed

Pair = tuple[str, str]  # (policy, the policy it is held against)

# The statistics of `stats.STATISTICS` under the names that summary.json and claims use.
FLOW_NAMES = {"mean": "fct_mean", "p50": "fct_p50", "p95": "fct_p95", "p99": "fct_p99"}
TRAINING_NAMES = {"mean": "iteration_mean", "p99": "iteration_p99"}


@dataclass(frozen=True)
class Measured:
    """Intervals by policy and metric, and changes by pair of policies and metric."""

    intervals: Mapping[str, Mapping[str, Estimate]]
    changes: Mapping[Pair, Mapping[str, Change]]


def pooled_flows(results: Results) -> dict[str, pd.DataFrame]:
    """Flows of the window, all seeds of a policy in one table, by policy label."""
    plan = results.plan
    pooled = {}
    for policy in plan.policies:
        parts = []
        for run in results.of(policy.label):
            table = run.table("flows")
            unknown = set(table["mix"]) - {mix.name for mix in plan.mixes}
            if unknown:
                raise RunFailed(
                    f"{run.folder}: flows of a mix that plan.json does not know "
                    f"({', '.join(sorted(unknown))}). Run the experiment again."
                )
            part = metrics.flows_in_window(table, plan.window_ns, plan.mixes, plan.rates_bps)
            parts.append(part.assign(seed=run.seed))
        pooled[policy.label] = pd.concat(parts, ignore_index=True)
    _check_same_schedule(pooled)
    return pooled


def pooled_iterations(results: Results, job: Job) -> dict[str, pd.DataFrame]:
    """Iterations of one job in the window, all seeds in one table, by policy label."""
    return {
        policy.label: pd.concat(
            [
                metrics.iterations_in_window(
                    run.table("iterations"), job.name, results.plan.window_ns
                ).assign(seed=run.seed)
                for run in results.of(policy.label)
            ],
            ignore_index=True,
        )
        for policy in results.plan.policies
    }


def compare_flows(
    pooled: Mapping[str, pd.DataFrame],
    size_class: str,
    seeds: tuple[int, ...],
    pairs: Iterable[Pair],
    resamples: int = stats.RESAMPLES,
) -> Measured:
    """FCT of one size class: the interval of each policy, the change of each pair."""
    columns = {
        label: metrics.of_class(flows, size_class).set_index(["seed", "flow"])["fct_ns"]
        for label, flows in pooled.items()
    }
    return compare_values(columns, seeds, pairs, FLOW_NAMES, resamples)


def compare_values(
    values: Mapping[str, pd.Series],
    seeds: tuple[int, ...],
    pairs: Iterable[Pair],
    names: Mapping[str, str],
    resamples: int = stats.RESAMPLES,
) -> Measured:
    """Values that have a twin under every policy, by (seed, whose); `names` as FLOW_NAMES."""
    wide = pd.concat(values, axis=1)
    position = {seed: index for index, seed in enumerate(seeds)}
    unit_seed = np.array(
        [position[seed] for seed in wide.index.get_level_values("seed")], dtype=np.int64
    )
    columns = {label: wide[label].to_numpy(dtype=float) for label in values}
    samples = {label: stats.flows_sample(values, unit_seed) for label, values in columns.items()}

    matched: dict[Pair, tuple[Sample, Sample]] = {}
    for policy, first in pairs:
        both = ~np.isnan(columns[policy]) & ~np.isnan(columns[first])
        matched[policy, first] = (
            _only(columns[policy], both, samples[policy], unit_seed),
            _only(columns[first], both, samples[first], unit_seed),
        )
    return _measure(samples, matched, len(seeds), names, paired=True, resamples=resamples)


def compare_iterations(
    pooled: Mapping[str, pd.DataFrame],
    seeds: tuple[int, ...],
    pairs: Iterable[Pair],
    resamples: int = stats.RESAMPLES,
) -> Measured:
    """Iteration time of a job, or of several together: intervals of policies, changes of pairs."""
    position = {seed: index for index, seed in enumerate(seeds)}
    samples = {}
    for label, iterations in pooled.items():
        keys = np.column_stack(
            [
                iterations["seed"].to_numpy(dtype=np.int64),
                pd.factorize(iterations["job"])[0],
                iterations["iteration"].to_numpy(dtype=np.int64),
            ]
        )
        units, unit = np.unique(keys, axis=0, return_inverse=True)
        samples[label] = Sample(
            iterations["duration_ns"].to_numpy(dtype=float),
            unit.reshape(-1).astype(np.int64),
            np.array([position[int(seed)] for seed in units[:, 0]], dtype=np.int64),
        )
    matched = {(policy, first): (samples[policy], samples[first]) for policy, first in pairs}
    return _measure(samples, matched, len(seeds), TRAINING_NAMES, paired=False, resamples=resamples)


def _only(
    values: metrics.Floats, both: np.typing.NDArray[np.bool_], whole: Sample, unit_seed: stats.Ints
) -> Sample:
    """The sample of the flows that finished under both; the whole sample if that is all."""
    if int(both.sum()) == len(whole.values):
        return whole
    return stats.flows_sample(np.where(both, values, np.nan), unit_seed)


def _measure(
    samples: Mapping[str, Sample],
    matched: Mapping[Pair, tuple[Sample, Sample]],
    seeds: int,
    names: Mapping[str, str],
    *,
    paired: bool,
    resamples: int,
) -> Measured:
    every = {id(sample): sample for sample in chain(samples.values(), *matched.values())}
    draws = stats.resample(list(every.values()), seeds, paired=paired, resamples=resamples)
    for index, sample in enumerate(every.values()):
        if len(np.unique(sample.unit)) < stats.FEWEST_UNITS:
            draws[:, index] = np.nan
    drawn = {key: draws[:, index] for index, key in enumerate(every)}
    points = {key: sample.statistics() for key, sample in every.items()}
    chosen = [
        (stats.STATISTICS.index(statistic), statistic, name) for statistic, name in names.items()
    ]
    intervals = {
        label: {
            name: stats.estimate(float(points[id(sample)][at]), drawn[id(sample)][:, at])
            for at, _, name in chosen
        }
        for label, sample in samples.items()
    }
    changes = {
        pair: {
            name: stats.change(
                float(points[id(policy)][at]),
                float(points[id(first)][at]),
                drawn[id(policy)][:, at],
                drawn[id(first)][:, at],
                min(len(policy.values), len(first.values)),
            )
            for at, _, name in chosen
        }
        for pair, (policy, first) in matched.items()
    }
    return Measured(intervals, changes)


def _check_same_schedule(pooled: Mapping[str, pd.DataFrame]) -> None:
    """A paired comparison of two different schedules would be nonsense that looks fine."""
    labels = list(pooled)
    sizes = {
        label: flows.set_index(["seed", "flow"])["size_byte"].sort_index()
        for label, flows in pooled.items()
    }
    for label in labels[1:]:
        if not sizes[label].equals(sizes[labels[0]]):
            raise RunFailed(
                f"{labels[0]} and {label} did not run the same flows, so they cannot be compared "
                "flow by flow. Run both again with the same experiment file and seeds."
            )
