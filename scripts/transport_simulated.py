"""Writes what the simulation gives into docs/thesis-transport.md, from the folder of its sweep.

giveway sweep experiments/thesis-grid.yaml --engine fluid \
    --set "tcp={control: reno, window: 32 MB, rto_min: 4 ms}" --out runs/own-fluid
.venv/bin/python -m scripts.transport_simulated runs/own-fluid

Beside it stands what the virtual engine gave, which is kept with the entry: one seed, the first.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis import agreement, compare, folder, sweep, words
from scripts import blocks
from scripts.transport_table import (
    LARGE,
    NAME,
    PAGE,
    SECOND_NS,
    SECONDS,
    SMALL,
    TRAINING,
    explained,
    measured,
    order,
    row,
    share,
    subject_of,
    timers,
)
from testbed.reproduce import entry, kept_results
from testbed.reproduce.verdicts import Verdict, judged

NUMBERS = (
    "R", "flows/s", "what", "published", "virtual", "fluid (95 % interval)", "verdict on fluid",
    "SYNs lost (same, low)", "without their seconds", "what explains the rest",
)  # fmt: skip
CELLS = (
    "R",
    "flows/s",
    "policy",
    "what",
    "virtual",
    "fluid, seed 0",
    "apart",
    "bound",
    "SYNs lost",
)
METRICS = {
    TRAINING: (f"training.{TRAINING}.iteration_mean", agreement.ITERATION_BOUND),
    SMALL: (f"flows.{SMALL}.fct_sender_mean", agreement.FLOWS_BOUND),
    LARGE: (f"flows.{LARGE}.fct_sender_mean", agreement.FLOWS_BOUND),
}
POLICIES = ("same", "low")


def main(at: Path) -> None:
    found, grid = entry.load(NAME), sweep.load(at)
    kept = kept_results.read(entry.path_of(NAME).parent / found.kept)
    blocks.write(PAGE, "simulated", "\n".join(numbers(found, grid, kept)))
    blocks.write(PAGE, "engines", "\n".join(cells(grid, kept)))


def numbers(found: entry.Entry, grid: sweep.Grid, kept: kept_results.Kept) -> Iterator[str]:
    """Every published number, and what both engines give."""
    yield row(*NUMBERS)
    yield row(*["---"] * len(NUMBERS))
    axes = {axis.name: axis.labels for axis in grid.axes}
    for target in sorted(found.targets, key=order):
        verdict, there = (judged(target, table, axes) for table in (grid.table, kept.table))
        labels = tuple(target.at[axis.name] for axis in grid.axes)
        subject = subject_of(target)
        lost, without = "", dict[str, float]()
        if subject != TRAINING:
            lost, without = timers(compare.pooled_flows(folder.load(grid.points[labels])), subject)
        yield row(
            *labels,
            f"{subject} {target.what.partition(',')[0].removeprefix(subject).strip()}",
            share(target.value),
            share(there.ours),
            measured(verdict),
            verdict.status,
            lost,
            share(without.get(SECONDS)),
            reason(verdict, there, without),
        )


def reason(verdict: Verdict, there: Verdict, without: dict[str, float]) -> str:
    """As for the kernel's numbers; and where none is known, whether the kernel differs as much."""
    found = explained(verdict, without)
    if found == "not known" and there.ours is not None and verdict.ours is not None:
        if abs(there.ours - verdict.ours) <= verdict.target.tolerance:
            return "not known; the kernel says the same"
        if verdict.low is not None and verdict.low <= there.ours <= (verdict.high or 0):
            return "not known; the kernel's number is within the interval"
    return found


def cells(grid: sweep.Grid, kept: kept_results.Kept) -> Iterator[str]:
    """The means on both engines, with the same flows: those of the first seed."""
    yield row(*CELLS)
    yield row(*["---"] * len(CELLS))
    names = [axis.name for axis in grid.axes]
    for place in kept.places:
        labels = tuple(place[name] for name in names)
        results = agreement.only_seeds(folder.load(grid.points[labels]), (0,))
        flows = compare.pooled_flows(results)
        [job] = results.plan.jobs
        iterations = compare.pooled_iterations(results, job)
        for policy in POLICIES:
            for what, (metric, bound) in METRICS.items():
                theirs = mean_there(kept.table, place, metric, policy)
                if what == TRAINING:
                    ours, lost = iterations[policy]["duration_ns"].mean(), ""
                else:
                    times = flows[policy].loc[flows[policy]["size_class"] == what, "fct_sender_ns"]
                    ours, lost = times.mean(), f"{(times >= SECOND_NS).sum()} of {len(times)}"
                apart = ours / theirs - 1
                told = share(apart) if abs(apart) <= bound else f"**{share(apart)}**"
                means = (words.duration(mean) for mean in (theirs, ours))
                yield row(*labels, policy, what, *means, told, f"{bound:.0%}", lost)


def mean_there(table: pd.DataFrame, place: dict[str, str], metric: str, policy: str) -> float:
    """Kept are the mean under `low` and its change against `same`."""
    chosen = table[(table["metric"] == metric) & (table["policy"] == "low")]
    for axis, label in place.items():
        chosen = chosen[chosen[axis] == label]
    value, change = float(chosen["value"].iloc[0]), float(chosen["change"].iloc[0])
    return value if policy == "low" else value / (1 + change)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
