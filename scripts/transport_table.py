"""Writes the table of docs/thesis-transport.md from the folder of its sweep.

giveway sweep experiments/thesis-grid.yaml --engine virtual --set "seeds=[0]" \
    --set "tcp={control: reno, window: 32 MB, rto_min: 4 ms}" --out runs/own
.venv/bin/python -m scripts.transport_table runs/own

Given a second argument, it also keeps the results with the entry, in that file.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import compare, folder, sweep
from basics.errors import GivewayError
from scripts import blocks
from testbed.reproduce import entry, kept_results
from testbed.reproduce.verdicts import Verdict, judged

NAME = "thesis/figure-5.19-own-transport"
PAGE = Path(__file__).parent.parent / "docs" / "thesis-transport.md"
HEAD = (
    "R", "flows/s", "what", "published", "ours (95 % interval)", "verdict",
    "SYNs lost (same, low)", "without their seconds", "without timeouts", "what explains the rest",
)  # fmt: skip
TRAINING, SMALL, LARGE = "resnet50", "small", "large"
SUBJECTS = (TRAINING, SMALL, LARGE)
SECOND_NS = 10**9  # what a kernel waits before it sends a SYN again
# A handshake and three round trips over a full queue of 1,000 packets are 5 ms: more is a timeout.
LONGEST_NS = 6 * 10**6


def main(at: Path, keep: Path | None) -> None:
    found, grid = entry.load(NAME), finished(sweep.load(at))
    if keep:
        made_by = grid.command.partition(" --out")[0]
        kept = replace(kept_results.of(found, grid, found.set), command=made_by)
        kept_results.write(kept, keep)
    blocks.write(PAGE, "measured", "\n".join(rows(found, grid)))


def finished(grid: sweep.Grid) -> sweep.Grid:
    """The grid at the points whose runs are all there."""
    points = {}
    for labels, path in grid.points.items():
        with suppress(GivewayError):
            folder.load(path)
            points[labels] = path
    return replace(grid, points=points)


def rows(found: entry.Entry, grid: sweep.Grid) -> Iterator[str]:
    yield row(*HEAD)
    yield row(*["---"] * len(HEAD))
    axes = {axis.name: axis.labels for axis in grid.axes}
    for target in sorted(found.targets, key=order):
        verdict = judged(target, grid.table, axes)
        labels = tuple(target.at[axis.name] for axis in grid.axes)
        subject = subject_of(target)
        lost, without = "", dict[str, float]()
        if subject != TRAINING and labels in grid.points:
            flows = compare.pooled_flows(folder.load(grid.points[labels]))
            lost, without = timers(flows, subject)
        yield row(
            *labels,
            f"{subject} {target.what.partition(',')[0].removeprefix(subject).strip()}",
            share(target.value),
            measured(verdict),
            f"{verdict.status} ({target.tolerance_text})",
            lost,
            share(without.get(SECONDS)),
            share(without.get(TIMEOUTS)),
            explained(verdict, without),
        )


SECONDS = "the second that a kernel waits after a lost SYN"
TIMEOUTS = "timeouts of a tick and more"


def timers(flows: dict[str, pd.DataFrame], size: str) -> tuple[str, dict[str, float]]:
    """How many SYNs were lost, and the reduction as it would be without what waiting costs."""
    same, low = (
        table[table["size_class"] == size].set_index("flow")["fct_sender_ns"]
        for table in (flows["same"], flows["low"])
    )
    without = {SECONDS: (same % SECOND_NS).mean() / (low % SECOND_NS).mean() - 1}
    if size == SMALL:
        prompt = (same < LONGEST_NS) & (low < LONGEST_NS)
        without[TIMEOUTS] = same[prompt].mean() / low[prompt].mean() - 1
    return f"{(same >= SECOND_NS).sum()}, {(low >= SECOND_NS).sum()} of {len(same)}", without


def explained(verdict: Verdict, without: dict[str, float]) -> str:
    """By one rule for all numbers: what brings ours within the tolerance."""
    if verdict.status == "reproduced":
        return "nothing is left beyond the tolerance"
    if verdict.ours is None:
        return "not measured yet"
    target = verdict.target
    found = [
        name for name, value in without.items() if abs(value - target.value) <= target.tolerance
    ]
    if found:
        return found[0]
    if verdict.low is not None and verdict.low <= target.value <= (verdict.high or 0):
        return "chance: the published number is within our interval"
    return "not known"


def order(target: entry.Target) -> tuple[int, int, int]:
    return -int(target.at["ratio"]), SUBJECTS.index(subject_of(target)), int(target.at["load"])


def subject_of(target: entry.Target) -> str:
    return target.metric.split(".")[1]


def measured(verdict: Verdict) -> str:
    if verdict.low is None:
        return share(verdict.ours)
    return f"{share(verdict.ours)} ({share(verdict.low)} to {share(verdict.high)})"


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %".replace("-", "−")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
