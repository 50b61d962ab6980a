"""How far the kernel is from itself: some cells, once more with hardly another delay.

A microsecond more a link is nothing to a flow that waits for milliseconds. But other packets are
the ones that find a queue full.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis import agreement, words
from basics.files import write_json
from bench.agreement.cells import CELLS, Cell
from bench.agreement.playing import played

KEPT = Path(__file__).with_name("noise.json")
TWICE = ("queue-10", "queue-100", "queue-500", "incast-100")  # with timeouts
DEAR = "thesis-"  # minutes a run: not played again
MORE_US = (1, 2)  # delay of a link, beyond the cell's
# Of the goals: set for all cells, before the simulation was compared on most of them.
GOALS = {
    ("iteration", False): "9 of 10",
    ("small flows", False): "5 of 6",
    ("small flows", True): "2 of 3",
}


def again(more_us: int) -> Iterator[Cell]:
    for cell in CELLS:
        if cell.name in TWICE or (more_us == MORE_US[0] and not cell.name.startswith(DEAR)):
            delay_us = cell.experiment.topology.delay.ns // 1000 + more_us
            yield replace(cell, settings=(*cell.settings, f"topology.delay={delay_us} us"))


def make(runs: Path, say: Callable[[str], None]) -> None:
    """Play those that are not kept yet on the virtual engine, half a minute each or more."""
    found: dict[str, dict[str, Any]] = kept()
    for more_us in MORE_US:
        for cell in again(more_us):
            if str(more_us) in found.get(cell.name, {}):
                continue
            results = played(cell, "virtual", runs / f"{cell.name}-and-{more_us}-us", say)
            found.setdefault(cell.name, {})[str(more_us)] = agreement.measured(results)
            write_json(KEPT, {one.name: found[one.name] for one in CELLS if one.name in found})


def kept() -> dict[str, dict[str, Any]]:
    """By cell, then by the microseconds more."""
    found: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def section(virtual: Mapping[str, Any], fluid: Mapping[str, Any]) -> str:
    """`virtual` and `fluid`: by cell, then by policy."""
    found = kept()
    lines = [
        "## How far the kernel is from itself",
        "All cells but the thesis's (minutes a run), played again on the virtual engine with one",
        "microsecond more of delay a link, four of them also with two more (`python -m",
        "bench.agreement --noise`). Which packets are lost is chance, and so is the mean: what is",
        "outside of the bounds against the kernel's own first run is **bold**. No simulation can",
        "be nearer to one such run than the next is.",
        "",
        "| cell | policy | small, mean: first run | and 1 us | and 2 us | fluid | timeouts | fluid "
        "| iteration: first run | and 1 us | and 2 us | fluid |",
        "| --- |" + " --- |" * 11,
    ]
    for name, runs in found.items():
        for policy, first in virtual[name].items():
            others = [runs[str(more)][policy] for more in MORE_US if str(more) in runs]
            small = [one["flows"]["small"] for one in (first, *others, fluid[name][policy])]
            job = next(iter(first["iteration"]))
            times = [one["iteration"][job] for one in (first, *others, fluid[name][policy])]
            gap = [""] * (len(MORE_US) - len(others))
            cells = [
                *_told([one["mean_ns"] for one in small], agreement.FLOWS_BOUND, gap),
                ", ".join(str(one["timeouts"]) for one in small[:-1]),
                str(small[-1]["timeouts"]),
                *_told(times, agreement.ITERATION_BOUND, gap),
            ]
            lines.append(f"| {name} | {policy} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_goals(found, virtual, fluid)])


def _goals(
    found: Mapping[str, Any], virtual: Mapping[str, Any], fluid: Mapping[str, Any]
) -> list[str]:
    """How often the kernel's next run meets the bounds that a simulation is held to."""
    again = [
        row
        for name, runs in found.items()
        for row in agreement.rows(virtual[name], runs[str(MORE_US[0])])
    ]
    simulated = [row for name in found for row in agreement.rows(virtual[name], fluid[name])]
    lines = [
        "So this is what the bounds let the kernel itself reach against its first run, with one",
        "microsecond more, and beside it the simulation in the same cells:",
        "",
        "| | the kernel again | the simulation | goal |",
        "| --- | --- | --- | --- |",
    ]
    for kind in ("iteration", "small flows", "large flows"):
        for is_change in (False, True):
            told = [
                _share([row.within for row in rows if _is(row, kind, is_change)])
                for rows in (again, simulated)
            ]
            bound = "5 points" if is_change else "3 %" if kind == "iteration" else "15 %"
            name = f"{kind}: change" if is_change else kind
            goal = GOALS.get((kind, is_change), "")
            lines.append(f"| {name}, within {bound} | {' | '.join(told)} | {goal} |")
    return [*lines, "", *_reachable(found, virtual, fluid), ""]


def of_itself(
    virtual: Mapping[str, Any],
    kind: str,
    is_change: bool,
    is_within: Callable[[agreement.BothEngines], bool] = lambda row: row.within,
) -> str:
    """How often the kernel's next run is within bounds (the page's own) of its first one."""
    within = [
        is_within(row)
        for name, runs in kept().items()
        if name in virtual
        for row in agreement.rows(virtual[name], runs[str(MORE_US[0])])
        if _is(row, kind, is_change)
    ]
    return _share(within) if within else ""


def _share(within: list[bool]) -> str:
    return f"{sum(within)} of {len(within)} ({100 * sum(within) / len(within):.0f} %)"


def _reachable(
    found: Mapping[str, Any], virtual: Mapping[str, Any], fluid: Mapping[str, Any]
) -> list[str]:
    """Which of the simulation's numbers that are outside lie among the kernel's own."""
    outside = among = nearer = 0
    for name, runs in found.items():
        again = [agreement.rows(virtual[name], run) for run in runs.values()]
        for row in agreement.rows(virtual[name], fluid[name]):
            if row.within:
                continue
            own = [
                one.other
                for run in again
                for one in run
                if (one.what, one.policy, one.is_change) == (row.what, row.policy, row.is_change)
            ]
            outside += 1
            among += min(row.reference, *own) <= row.other <= max(row.reference, *own)
            most = max(abs(replace(row, other=one).apart) for one in own)
            nearer += abs(row.apart) <= most
    return [
        "Where the goal is above the kernel's own share, no simulation can be expected to reach",
        "it against one run of the kernel: one lost SYN in 1,000 small flows is a millisecond of",
        "their mean, one timeout of a ring 200 ms of one of ten iterations. What is lost is",
        "decided by single packets: a simulation can have the right number of losses, but not",
        f"the same ones. Of the simulation's numbers outside of bounds {among} of {outside} lie",
        f"between the kernel's own runs, and {nearer} are off by no more than the kernel is off",
        "from itself; the others are its own error.",
    ]


def _is(row: agreement.BothEngines, kind: str, is_change: bool) -> bool:
    return kind in row.what and row.is_change == is_change


def _told(values: list[float | None], bound: float, gap: list[str]) -> list[str]:
    """The simulation's is last, behind a gap where the kernel's are fewer than in other rows."""
    first = values[0]
    texts = [words.duration(value) for value in values]
    told = [
        text if not value or not first or abs(value / first - 1) <= bound else f"**{text}**"
        for text, value in zip(texts, values, strict=True)
    ]
    return [*told[:-1], *gap, told[-1]]
