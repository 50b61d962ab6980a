"""Puts the records of all runs side by side: what each policy measured, and the changes between.

Flows are paired by (seed, flow number): the schedule is the same under every policy. Iterations
have no twin, so they are paired by seed alone; the workers of one iteration wait for each other,
so they are drawn together. Which numbers there are is said by `analysis/metrics/`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics, stats, window
from analysis.folder import Job, Results
from analysis.metrics import Floats, Metric, Over, Statistic, Subject
from analysis.stats import Change, Estimate, Sample
from basics.errors import RunFailed

Pair = tuple[str, str]  # (policy, the policy it is held against)


@dataclass(frozen=True)
class Comparison:
    """Intervals by policy and changes by pair of policies, both by the name of a metric."""

    intervals: dict[str, dict[str, Estimate]]
    changes: dict[Pair, dict[str, Change]]


@dataclass(frozen=True)
class Column:
    """One number for each row: under each policy, and where two of them are compared."""

    metrics: Mapping[str, Statistic]  # of these numbers, by name
    samples: Mapping[str, Sample]
    matched: Mapping[Pair, tuple[Sample, Sample]]

    @property
    def every(self) -> list[Sample]:
        return list(chain(self.samples.values(), *self.matched.values()))


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
            acked_ns = run.table("acknowledged").set_index("flow")["acked_ns"]
            table = table.assign(acked_ns=table["flow"].map(acked_ns))
            part = window.flows_in_window(
                table, plan.window_ns, plan.mixes, plan.rates_bps, plan.delays_ns
            )
            parts.append(part.assign(seed=run.seed))
        pooled[policy.label] = pd.concat(parts, ignore_index=True)
    _check_same_schedule(pooled)
    return pooled


def pooled_mixes(results: Results) -> dict[str, pd.DataFrame]:
    """What each mix got in the window, a row a mix and seed, by policy label."""
    plan = results.plan
    return {
        policy.label: pd.DataFrame(
            [
                (run.seed, mix.name, float(found.get(mix.name, 0.0)))
                for run in results.of(policy.label)
                for found in [
                    window.goodputs(
                        run.table("flows"),
                        run.table("unfinished"),
                        plan.window_ns,
                        plan.duration_ns,
                    )
                ]
                for mix in plan.mixes
            ],
            columns=["seed", "mix", "goodput_bps"],
        )
        for policy in plan.policies
    }


def pooled_iterations(results: Results, job: Job) -> dict[str, pd.DataFrame]:
    """Iterations of one job in the window, all seeds in one table, by policy label."""
    return {
        policy.label: pd.concat(
            [
                window.iterations_in_window(
                    run.table("iterations"), job, results.plan.window_ns
                ).assign(seed=run.seed)
                for run in results.of(policy.label)
            ],
            ignore_index=True,
        )
        for policy in results.plan.policies
    }


def compared(
    subject: Subject,
    tables: Mapping[str, pd.DataFrame],
    seeds: tuple[int, ...],
    pairs: Iterable[Pair],
    resamples: int = stats.RESAMPLES,
    *,
    paired: bool | None = None,
) -> Comparison:
    """Every metric of a subject that has intervals; `tables` are the rows of each policy.

    `paired`: whether rows have twins, where that is not as the subject says.
    """
    pairs = list(pairs)
    paired = subject.paired if paired is None else paired
    chosen = _paired if paired else _unpaired
    columns = [chosen(subject, same, tables, seeds, pairs) for same in _sharing(subject)]
    # Columns of paired rows share their draws. Others are drawn one after the other, each from the
    # start: a metric that is added changes nothing for those that were there.
    together = [columns] if paired else [[column] for column in columns]
    found = Comparison({label: {} for label in tables}, {pair: {} for pair in pairs})
    for group in together:
        _measure(found, group, len(seeds), paired=paired, resamples=resamples)
    return found


def _sharing(subject: Subject) -> list[list[Metric]]:
    """Metrics that can be drawn; those of the same numbers, such as quantiles, side by side."""
    found: dict[Any, list[Metric]] = {}
    for metric in metrics.of(subject):
        if isinstance(metric.how, Over):
            found.setdefault(metric.how.each, []).append(metric)
    return list(found.values())


def _statistics(same: Sequence[Metric]) -> dict[str, Statistic]:
    return {one.name: one.how.statistic for one in same if isinstance(one.how, Over)}


def _numbers(same: Sequence[Metric], table: pd.DataFrame) -> Floats:
    how = same[0].how
    assert isinstance(how, Over)
    return how.numbers(table)


def _paired(
    subject: Subject,
    same: Sequence[Metric],
    tables: Mapping[str, pd.DataFrame],
    seeds: tuple[int, ...],
    pairs: Sequence[Pair],
) -> Column:
    """Rows that have a twin under every policy."""
    index = ["seed", *subject.drawn]
    wide = pd.concat(
        {
            label: pd.Series(_numbers(same, table), pd.MultiIndex.from_frame(table[index]))
            for label, table in tables.items()
        },
        axis=1,
    )
    position = {seed: at for at, seed in enumerate(seeds)}
    unit_seed = np.array(
        [position[seed] for seed in wide.index.get_level_values("seed")], dtype=np.int64
    )
    columns = {label: wide[label].to_numpy(dtype=float) for label in tables}
    samples = {label: stats.flows_sample(values, unit_seed) for label, values in columns.items()}
    matched: dict[Pair, tuple[Sample, Sample]] = {}
    for policy, first in pairs:
        both = ~np.isnan(columns[policy]) & ~np.isnan(columns[first])
        matched[policy, first] = (
            _only(columns[policy], both, samples[policy], unit_seed),
            _only(columns[first], both, samples[first], unit_seed),
        )
    return Column(_statistics(same), samples, matched)


def _only(
    values: Floats, both: np.typing.NDArray[np.bool_], whole: Sample, unit_seed: stats.Ints
) -> Sample:
    """The sample of the rows with a number under both; the whole sample if that is all."""
    if int(both.sum()) == len(whole.values):
        return whole
    return stats.flows_sample(np.where(both, values, np.nan), unit_seed)


def _unpaired(
    subject: Subject,
    same: Sequence[Metric],
    tables: Mapping[str, pd.DataFrame],
    seeds: tuple[int, ...],
    pairs: Sequence[Pair],
) -> Column:
    """Rows that no other policy has, several of which may make a unit."""
    position = {seed: at for at, seed in enumerate(seeds)}
    samples = {}
    for label, table in tables.items():
        numbers = _numbers(same, table)
        known = ~np.isnan(numbers)
        kept = table[known]
        keys = np.column_stack([_codes(kept[name]) for name in ("seed", *subject.drawn)])
        units, unit = np.unique(keys, axis=0, return_inverse=True)
        samples[label] = Sample(
            numbers[known],
            unit.reshape(-1).astype(np.int64),
            np.array([position[int(seed)] for seed in units[:, 0]], dtype=np.int64),
        )
    matched = {(policy, first): (samples[policy], samples[first]) for policy, first in pairs}
    return Column(_statistics(same), samples, matched)


def _codes(column: pd.Series) -> stats.Ints:
    """Whole numbers as they are, names as numbers."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy(dtype=np.int64)
    return np.asarray(pd.factorize(column)[0], dtype=np.int64)


def _measure(
    found: Comparison, columns: Sequence[Column], seeds: int, *, paired: bool, resamples: int
) -> None:
    """Add the metrics of some columns, on draws that they share, to what was found."""
    statistics = list(dict.fromkeys(s for column in columns for s in column.metrics.values()))
    every = {id(sample): sample for column in columns for sample in column.every}
    draws = stats.resample(
        list(every.values()), seeds, statistics, paired=paired, resamples=resamples
    )
    for index, sample in enumerate(every.values()):
        if sample.units < stats.FEWEST_UNITS:
            draws[:, index] = np.nan
    drawn = {key: draws[:, index] for index, key in enumerate(every)}

    for column in columns:
        for name, statistic in column.metrics.items():
            at = statistics.index(statistic)
            for label, sample in column.samples.items():
                found.intervals[label][name] = stats.estimate(
                    statistic.of(sample.values), drawn[id(sample)][:, at]
                )
            for pair, (policy, first) in column.matched.items():
                found.changes[pair][name] = stats.change(
                    statistic.of(policy.values),
                    statistic.of(first.values),
                    drawn[id(policy)][:, at],
                    drawn[id(first)][:, at],
                    min(len(policy.values), len(first.values)),
                )


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
