"""How far two engines are apart on the same experiment and the same flows.

Disagreement between engines is a result, so it is shown beside the bounds that were set before
anything was compared: 3 % for iterations, 15 % for flows, 5 points for what a policy changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from analysis import compare, metrics, window, words
from analysis.folder import Plan, Results, load
from analysis.metrics import FLOWS, TRAINING
from basics.errors import BadInput
from basics.folding import FoldingTable

ITERATION_BOUND, FLOWS_BOUND, POINTS_BOUND = 0.03, 0.15, 0.05
CLASSES = ("small", "large")
TAIL = "slowdown_p99"  # of all flows: what other simulators of flows report their error in
# What is kept of flows, under the keys of bench/agreement/reference.json, and the metric it is.
OF_FLOWS = {
    "count": "count",
    "unfinished": "unfinished",
    "mean_ns": "fct_mean",
    "median_ns": "fct_p50",
}
# A small flow that takes longer than this lost a packet that only a timeout brought back: Linux
# waits 200 ms or more for data, 1 s for the first packet of a connection.
TIMEOUT_NS = 150_000_000
MOST_LISTED = 8  # seeds in one sentence
FEW = 20  # flows: below this a mean hangs on one or two of them
SCHEDULE = ["flow", "mix", "src", "dst", "size_byte", "scheduled_ns"]

Numbers = Mapping[str, Any]  # of one policy, as `measured` makes them


@dataclass(frozen=True)
class BothEngines:
    """One number in two engines: of one policy, or the change from the first policy to another."""

    what: str
    policy: str
    reference: float
    other: float
    bound: float
    is_change: bool = False

    @property
    def apart(self) -> float:
        """Relative; between two changes their difference, where 0.05 is five points."""
        if self.is_change:
            return self.other - self.reference
        return self.other / self.reference - 1

    @property
    def within(self) -> bool:
        return abs(self.apart) <= self.bound


def measured(results: Results) -> dict[str, dict[str, Any]]:
    """What is compared, by policy: the reference keeps this and nothing else of a run."""
    flows = compare.pooled_flows(results)
    found: dict[str, dict[str, Any]] = {}
    for policy in results.plan.policies:
        numbers: dict[str, Any] = {"iteration": {}, "flows": {}}
        for job in results.plan.jobs:
            rows = compare.pooled_iterations(results, job)[policy.label]
            iteration = metrics.headline(TRAINING)
            numbers["iteration"][job.name] = _whole(iteration.how.value(rows))
        for name in CLASSES:
            table = window.of_class(flows[policy.label], name)
            numbers["flows"][name] = {
                key: _whole(metrics.known(FLOWS.path(name, metric)).how.value(table))
                for key, metric in OF_FLOWS.items()
            }
        small = window.of_class(flows[policy.label], "small")["fct_ns"].to_numpy(dtype=float)
        in_time = small[small <= TIMEOUT_NS]
        numbers["flows"]["small"] |= {
            "timeouts": int((small > TIMEOUT_NS).sum()),
            "mean_without_timeouts_ns": _whole(metrics.mean(in_time)),
        }
        tail = metrics.known(FLOWS.path("all", TAIL)).how.value(flows[policy.label])
        numbers["flows"]["all"] = {TAIL: round(tail, 3) if np.isfinite(tail) else None}
        found[policy.label] = numbers
    return found


def _whole(value: float) -> int | None:
    return round(value) if np.isfinite(value) else None


def rows(reference: Mapping[str, Numbers], other: Mapping[str, Numbers]) -> list[BothEngines]:
    """Every number that has a bound, policy by policy, then what the policies change."""
    return [*_values(reference, other), *_changes(reference, other)]


def values(numbers: Numbers) -> dict[str, tuple[float | None, float]]:
    """(mean, bound) by what it is the mean of."""
    found = {
        f"{job}, iteration": (mean, ITERATION_BOUND) for job, mean in numbers["iteration"].items()
    }
    for name in CLASSES:
        found[FLOWS.called(name)] = (numbers["flows"][name]["mean_ns"], FLOWS_BOUND)
    return found


def _values(
    reference: Mapping[str, Numbers], other: Mapping[str, Numbers]
) -> Iterator[BothEngines]:
    for label, numbers in reference.items():
        theirs = values(other[label])
        for what, (mean, bound) in values(numbers).items():
            second = theirs[what][0]
            if mean and second:
                yield BothEngines(what, label, mean, second, bound)


def _changes(
    reference: Mapping[str, Numbers], other: Mapping[str, Numbers]
) -> Iterator[BothEngines]:
    first, *others = reference
    for label in others:
        for what, (mean, _) in values(reference[label]).items():
            means = (
                mean,
                values(reference[first])[what][0],
                values(other[label])[what][0],
                values(other[first])[what][0],
            )
            if all(means):
                a, b, c, d = (float(value or 0) for value in means)
                yield BothEngines(what, label, a / b - 1, c / d - 1, POINTS_BOUND, is_change=True)


def notes(reference: Mapping[str, Numbers], other: Mapping[str, Numbers]) -> list[str]:
    """What is known to move a mean, where it moved one."""
    found = []
    for label, numbers in reference.items():
        small = numbers["flows"]["small"]
        theirs = other[label]["flows"]
        timeouts = small["timeouts"], theirs["small"]["timeouts"]
        if any(timeouts):
            a, b = small["mean_without_timeouts_ns"], theirs["small"]["mean_without_timeouts_ns"]
            found.append(
                f"{label}: in the reference {timeouts[0]} of {small['count']} small flows waited "
                f"for a timeout, in the other {timeouts[1]}; without those that took over "
                "150 ms the means are "
                f"{words.duration(a)} and {words.duration(b)} ({words.percent(b / a - 1)})"
            )
        for name in CLASSES:
            unfinished = numbers["flows"][name]["unfinished"], theirs[name]["unfinished"]
            if any(unfinished):
                found.append(
                    f"{label}: {unfinished[0]} and {unfinished[1]} of "
                    f"{numbers['flows'][name]['count']} {name} flows were not finished at the end"
                )
        large = numbers["flows"]["large"]["count"]
        if 0 < large < FEW:
            found.append(f"{label}: only {large} large flows: one of them can move the mean")
    return list(dict.fromkeys(found))


def in_common(reference: Results, other: Results) -> tuple[Results, Results]:
    """Both without the seeds that only one of them has."""
    seeds = tuple(seed for seed in reference.plan.seeds if seed in other.plan.seeds)
    if not seeds:
        raise BadInput(
            f"{other.folder}: no seed in common with {reference.folder} "
            f"({_listed(other.plan.seeds)} and {_listed(reference.plan.seeds)}): run it with "
            f"--seed {reference.plan.seeds[0]}"
        )
    return only_seeds(reference, seeds), only_seeds(other, seeds)


def only_seeds(results: Results, seeds: tuple[int, ...]) -> Results:
    runs = {at: run for at, run in results.runs.items() if at[1] in seeds}
    return replace(results, plan=replace(results.plan, seeds=seeds), runs=runs)


def left_out(all_of: Results, used: Results) -> list[str]:
    seeds = [seed for seed in all_of.plan.seeds if seed not in used.plan.seeds]
    return [f"Left out, only in {all_of.folder}: seed {_listed(seeds)}."] if seeds else []


def _listed(seeds: Sequence[int]) -> str:
    more = [f"… ({len(seeds)} in all)"] if len(seeds) > MOST_LISTED else []
    return ", ".join([*map(str, seeds[:MOST_LISTED]), *more])


def demand_same(reference: Results, other: Results) -> None:
    """Refuse two folders that are not the same experiment with the same flows."""
    for name, first, second in _plans(reference.plan, other.plan):
        if first != second:
            raise BadInput(
                f"{other.folder}: not the same experiment as {reference.folder}: {name} differs "
                f"({second} and {first})"
            )
    for at, run in reference.runs.items():
        mine = run.table("flows")[SCHEDULE]
        theirs = other.runs[at].table("flows")[SCHEDULE]
        if not mine.equals(theirs):
            raise BadInput(f"{other.runs[at].folder}: not the same flows as in {run.folder}")


def _plans(first: Plan, second: Plan) -> Iterator[tuple[str, Any, Any]]:
    for name in ("name", "duration_ns", "window_ns"):
        yield name, getattr(first, name), getattr(second, name)
    for name in ("policies", "jobs"):
        yield (
            name,
            [getattr(entry, "label", None) or entry.name for entry in getattr(first, name)],
            [getattr(entry, "label", None) or entry.name for entry in getattr(second, name)],
        )
    yield "the rate of a link", first.rates_bps, second.rates_bps


def compared(reference: Path, other: Path) -> list[FoldingTable | str]:
    """For the terminal: a table, then sentences."""
    whole = load(reference), load(other)
    first, second = in_common(*whole)
    demand_same(first, second)
    mine, theirs = measured(first), measured(second)
    found = rows(mine, theirs)
    table = FoldingTable(title=f"{first.plan.name}: {first.plan.engine} and {second.plan.engine}")
    for column in ("", "policy", first.plan.engine, second.plan.engine, "apart", "bound"):
        table.add_column(column, justify="left" if column in ("", "policy") else "right")
    for row in found:
        texts = _told(row, row.reference), _told(row, row.other), _apart(row), _bound(row)
        what = f"{row.what}, change" if row.is_change else f"{row.what}, mean"
        table.add_row(what, row.policy, *texts, style="" if row.within else "red")
    within = sum(row.within for row in found)
    return [
        table,
        f"{within} of {len(found)} numbers are within their bounds.",
        *left_out(whole[0], first),
        *left_out(whole[1], second),
        *notes(mine, theirs),
    ]


def _told(row: BothEngines, value: float) -> Text:
    return Text(words.percent(value) if row.is_change else words.duration(value))


def _apart(row: BothEngines) -> Text:
    text = f"{100 * row.apart:+.1f} {'points' if row.is_change else '%'}"
    return Text(text.replace("-", words.MINUS) + ("" if row.within else " (outside)"))


def _bound(row: BothEngines) -> Text:
    return Text(f"{100 * row.bound:.0f} {'points' if row.is_change else '%'}")
