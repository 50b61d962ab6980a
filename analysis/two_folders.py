"""Any two folders of runs, one held against the other: what was asked, and what came of it.

Each folder is read by its own plan, so the experiments may differ in anything. Where both played
the same flows, changes are paired flow by flow, as between two policies of one experiment;
elsewhere flows are drawn apart, and the intervals are wider.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.markup import escape

from analysis import compare, first_difference, metrics, stats, window, words
from analysis.agreement import SCHEDULE, only_seeds
from analysis.claims import value_of
from analysis.compare import Comparison
from analysis.folder import Results, load
from analysis.metrics import FLOWS, SIZE_CLASSES, TRAINING, Metric, Subject
from analysis.summary import summarise
from analysis.sweep import metrics_of
from analysis.tables import CLARITY, STYLES
from basics.errors import BadInput
from basics.folding import FoldingTable

FIRST, SECOND = "first", "second"
SAME_EVERY_TIME = ("virtual", "fluid")  # engines whose records are the same every time
NEVER = "none"  # what stands for a key that is not there
MOST_KEYS = 40
FEW_DRAWS = 2
NO_CHANGE: Mapping[str, Any] = {"change": None, "interval_95": None}
NOT_PLAYED = ("name", "question", "claims", "seeds", "versions", "kernel")  # keys of no effect


@dataclass(frozen=True)
class MetricChange:
    """A metric under one policy in two folders."""

    policy: str
    metric: Metric
    whose: str
    values: tuple[float | None, float | None]
    change: Mapping[str, Any]  # `change` and its `interval_95`, as summaries have them

    @property
    def moved(self) -> bool:
        return self.values[0] != self.values[1]


@dataclass(frozen=True)
class PolicyPair:
    """A policy of the first folder and the one of the second that it is compared with."""

    labels: tuple[str, str]
    seeds: tuple[int, ...]
    same_flows: bool

    @property
    def name(self) -> str:
        return " / ".join(dict.fromkeys(self.labels))


def compared(
    first: Path, second: Path, *, every: bool = False, resamples: int = stats.RESAMPLES
) -> list[Any]:
    """For the terminal: tables and sentences. `every`: metrics beyond those of the report too."""
    mine, theirs = load(first), load(second)
    seeds = tuple(seed for seed in mine.plan.seeds if seed in theirs.plan.seeds)
    found: list[Any] = [*_said_experiment(mine, theirs)]
    pairs = paired_policies(mine, theirs, seeds)
    both = only_seeds(mine, seeds), only_seeds(theirs, seeds)
    # Its values alone are used, and these are not drawn; changes are drawn below.
    summaries = [summarise(results, FEW_DRAWS) for results in both] if pairs else []
    for pair in pairs:
        entries = [s["policies"][label] for s, label in zip(summaries, pair.labels, strict=True)]
        rows = [*changes(both, entries, pair, resamples)]
        found.append(_table(pair, [row for row in rows if every or row.metric.row]))
        how = "flow by flow" if pair.same_flows else "not flow by flow: the flows are not the same"
        found.append(f"{pair.name}: compared {how}; seeds {', '.join(map(str, seeds))}.")
    if not pairs:
        found.append("No policy with a seed is in both, so no metric is compared.")
    return [*found, *said_records(mine, theirs)]


def experiment_differences(first: Results, second: Results) -> dict[str, tuple[str, str]]:
    """What the two experiments and their engines do not have in common, by key."""
    both = [_told(results) for results in (first, second)]
    return {
        key: (both[0].get(key, NEVER), both[1].get(key, NEVER))
        for key in dict.fromkeys([*both[0], *both[1]])
        if both[0].get(key, NEVER) != both[1].get(key, NEVER)
    }


def _told(results: Results) -> dict[str, str]:
    manifest = next(iter(results.runs.values())).manifest
    told = {"engine": results.plan.engine}
    told |= dict(_flat("versions", manifest.get("versions") or {}))
    told |= dict(_flat("kernel", manifest.get("kernel")))
    try:
        content = yaml.safe_load((results.folder / "experiment.yaml").read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        raise BadInput(
            f"{results.folder}: its experiment.yaml cannot be read. Run the experiment again."
        ) from None
    return told | dict(_flat("", content))


def _flat(at: str, value: Any) -> Iterator[tuple[str, str]]:
    """`topology.rate: 1 Gbit/s`, as `--set` takes it; a list of plain values is one value."""
    plain = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _flat(f"{at}.{key}" if at else str(key), inside)
    elif isinstance(value, list) and not plain:
        for number, inside in enumerate(value):
            yield from _flat(f"{at}.{number}", inside)
    else:
        yield at, json.dumps(value) if plain else str(value)


def paired_policies(first: Results, second: Results, seeds: tuple[int, ...]) -> list[PolicyPair]:
    """Policies of the same label; or, where each folder has a single one, these two."""
    mine, theirs = ([policy.label for policy in one.plan.policies] for one in (first, second))
    both = [(label, label) for label in mine if label in theirs]
    if not both and len(mine) == len(theirs) == 1:
        both = [(mine[0], theirs[0])]
    return [PolicyPair(pair, seeds, _same_flows(first, second, pair, seeds))
            for pair in both if seeds]  # fmt: skip


def _same_flows(
    first: Results, second: Results, labels: tuple[str, str], seeds: tuple[int, ...]
) -> bool:
    return first.plan.window_ns == second.plan.window_ns and all(
        first.runs[labels[0], seed]
        .table("flows")[SCHEDULE]
        .equals(second.runs[labels[1], seed].table("flows")[SCHEDULE])
        for seed in seeds
    )


def changes(
    both: tuple[Results, Results],
    entries: list[Mapping[str, Any]],
    pair: PolicyPair,
    resamples: int,
) -> Iterator[MetricChange]:
    """Every metric that both have; what can be drawn again has an interval of its change."""
    theirs = {metric.path(whose) for metric, whose in metrics_of(entries[1])}
    drawn = _drawn(*both, pair, resamples)
    for metric, whose in metrics_of(entries[0]):
        path = metric.path(whose)
        if path not in theirs:
            continue
        before, after = (value_of(entry, metric, whose)[0] for entry in entries)
        change = drawn.get(path)
        if change is None and before and after is not None:
            change = {"change": after / before - 1, "interval_95": None}
        yield MetricChange(pair.name, metric, whose, (before, after), change or NO_CHANGE)


def _drawn(
    first: Results, second: Results, pair: PolicyPair, resamples: int
) -> dict[str, dict[str, Any]]:
    """Changes with their intervals, of flows and of training, by the name of the metric."""
    found: dict[str, dict[str, Any]] = {}

    def add(subject: Subject, whose: str, tables: list[pd.DataFrame], paired: bool) -> None:
        named = dict(zip((FIRST, SECOND), tables, strict=True))
        measured: Comparison = compare.compared(
            subject, named, pair.seeds, [(SECOND, FIRST)], resamples, paired=paired
        )
        for name, change in measured.changes[SECOND, FIRST].items():
            if words.finite(change.change.point):
                ends = [change.change.low, change.change.high]
                told = {"change": change.change.point, "interval_95": ends}
                found[subject.path(whose, name)] = told

    flows = [
        compare.pooled_flows(results)[label]
        for results, label in zip((first, second), pair.labels, strict=True)
    ]
    for name in SIZE_CLASSES:
        classes = [window.of_class(table, name) for table in flows]
        same = pair.same_flows and classes[0]["flow"].tolist() == classes[1]["flow"].tolist()
        add(FLOWS, name, classes, same)
    for job in first.plan.jobs:
        twin = next((other for other in second.plan.jobs if other.name == job.name), None)
        if twin is not None:
            own = compare.pooled_iterations(first, job)[pair.labels[0]]
            other = compare.pooled_iterations(second, twin)[pair.labels[1]]
            add(TRAINING, job.name, [own, other], False)
    return found


def _said_experiment(first: Results, second: Results) -> Iterator[Any]:
    found = experiment_differences(first, second)
    if not found:
        yield "The experiments are the same, and so are engine and versions."
        return
    table = FoldingTable(title="What differs in the experiment", title_justify="left")
    for column in ("key", str(first.folder), str(second.folder)):
        table.add_column(escape(column))
    for key, values in list(found.items())[:MOST_KEYS]:
        table.add_row(escape(key), *map(escape, values))
    yield table
    if len(found) > MOST_KEYS:
        yield f"{len(found) - MOST_KEYS} more keys differ."


def _table(pair: PolicyPair, rows: list[MetricChange]) -> FoldingTable | str:
    """What moved; a line, if nothing has."""
    if rows and not any(row.moved for row in rows):
        return f"{pair.name}: all {len(rows)} metrics are the same in both."
    table = FoldingTable(
        title=escape(f"What changed: {pair.name}"), title_justify="left", caption_justify="left"
    )
    for column in ("metric", "first", "second", "change"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for row in rows:
        if row.moved:
            verdict = words.verdict(row.change, row.metric.better)
            style = STYLES.get(verdict, "default")
            values = (escape(row.metric.unit.shown(value)) for value in row.values)
            table.add_row(
                escape(row.metric.path(row.whose)), *values, f"[{style}]{_said(row)}[/{style}]"
            )
    same = sum(not row.moved for row in rows)
    if same:
        table.caption = f"{same} of {len(rows)} metrics are the same in both."
    return table


def _said(row: MetricChange) -> str:
    change = row.change.get("change")
    if change is None:
        return ""
    interval = words.percent_interval(row.change["interval_95"])
    drawn = metrics.Over is type(row.metric.how) and row.metric.of in (FLOWS, TRAINING)
    beside = interval or (CLARITY["few"] if drawn else "")
    return words.percent(change) + (f" ({beside})" if beside else "")


def said_records(first: Results, second: Results) -> list[str]:
    """Whether the records are the same; where they should be and are not, where that begins."""
    both = [at for at in first.runs if at in second.runs]
    if not both:
        return []
    same = [at for at in both if _digest(first, at) == _digest(second, at)]
    said = [f"Records: {len(same)} of {len(both)} runs that both have are the same."]
    if len(same) < len(both) and should_be_same(first, second):
        said += [
            "The others should be the same too. The first record that differs:",
            *map(str, first_difference.in_folders(first, second)),
        ]
    return said


def should_be_same(first: Results, second: Results) -> bool:
    """The same experiment, played by an engine that plays it alike every time."""
    changed = experiment_differences(first, second)
    played = [key for key in changed if key.partition(".")[0] not in NOT_PLAYED]
    # A list of names: runs of the policies that both have are the same all the same.
    return first.plan.engine in SAME_EVERY_TIME and set(played) <= {"policies"}


def _digest(results: Results, at: tuple[str, int]) -> Any:
    return results.runs[at].manifest.get("digest")
