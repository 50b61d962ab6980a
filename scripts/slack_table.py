"""Writes the tables and the picture of docs/slack-aware.md from the results of its sweeps.

giveway sweep experiments/slack-aware.yaml --engine fluid --out runs/slack
.venv/bin/python -m scripts.slack_table fluid runs/slack

With `virtual`, the tables of the kernel, from the folder of experiments/slack-aware-kernel.yaml or
a file of kept results. Without a folder, from the tables on the page: the short one, and the
picture.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from analysis import sweep
from analysis.look import MARKERS, STYLE, colour
from scripts import blocks
from scripts.transport_table import finished
from testbed.reproduce import kept_results

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "slack-aware.md"
METRICS = {
    "iteration": "training.resnet50.iteration_mean",
    "small": "flows.small.fct_mean",
    "medium": "flows.medium.fct_mean",
    "large": "flows.large.fct_mean",
}
RATIOS, LOADS = ("16", "8", "4", "2"), ("23", "46", "92", "184")
LOW = "strict-priority"
OURS = ("slack-aware", "slack-aware-fair", "slack-aware-account")
COLUMNS = (LOW, "fq-codel", "first-bytes", "slack-aware-1", *OURS)
# The goal of issue 13: bounds against all-low priority (small flows) and against FIFO (the rest).
MOST_SMALL, MOST_ITERATION = 1.1, 0.01
KEPT, CHEAP = 0.6, 0.02  # of low's gain, where low costs training less than this

Cell = dict[tuple[str, str], Any]  # a row of the sweep's table by policy and metric
Changes = dict[str, list[tuple[float, ...]]]  # of METRICS in %, cell by cell
MOST_LEFT = 150  # % of FIFO's mean: the picture ends there


def main(engine: str, source: Path | None = None) -> None:
    if source is not None:
        tables(engine, read(source))
    page = PAGE.read_text()
    if f"<!-- {engine} short -->" in page:
        blocks.write(PAGE, f"{engine} short", "\n".join(short(page, engine)))
    pareto(on_page(page, engine), engine).savefig(DOCS / picture_of(engine), dpi=130)


def tables(engine: str, cells: dict[tuple[str, str], Cell]) -> None:
    order = [(ratio, load) for ratio in RATIOS for load in LOADS if (ratio, load) in cells]
    for policy in run(cells, OURS):
        blocks.write(PAGE, f"{engine} {policy}", "\n".join(goal(cells, order, policy)))
    blocks.write(PAGE, f"{engine} policies", "\n".join(policies(cells, order)))


def picture_of(engine: str) -> str:
    return f"slack-aware-{engine}.png"


def short(page: str, engine: str) -> Iterator[str]:
    """A line a policy, from the tables of the page."""
    yield (
        "| policy | training pays | cells where that is at most 1 % | small flows | medium flows "
        "| large flows | whole goal met |"
    )
    yield "| --- " * 7 + "|"
    for policy, cells in on_page(page, engine).items():
        paid, *flows = ([cell[key] for cell in cells] for key in range(len(METRICS)))
        cheap = sum(one <= 100 * MOST_ITERATION for one in paid)
        met = re.search(r"Goal met in (.*) cells", block(page, f"{engine} {policy}"))
        columns = [f"`{policy}`", spread(paid, 1), f"{cheap} of {len(paid)}"]
        columns += [*(spread(some, 0) for some in flows), met[1] if met else ""]
        yield f"| {' | '.join(columns)} |"


def spread(found: list[float], digits: int) -> str:
    least, most = (f"{round(one, digits) + 0.0:+.{digits}f}" for one in (min(found), max(found)))
    return f"{least} to {most} %".replace("-", "−")


def block(page: str, name: str) -> str:
    _, _, rest = page.partition(f"<!-- {name} -->\n")
    return rest.partition(f"<!-- /{name} -->")[0]


def on_page(page: str, engine: str) -> Changes:
    """What the table of the page says: changes of iterations and of flows by size, in %."""
    lines = [
        line for line in block(page, f"{engine} policies").splitlines() if line.startswith("|")
    ]
    header, _, *rows = ([part.strip() for part in line.split("|")[1:-1]] for line in lines)
    found: Changes = {policy: [] for policy in header[2:]}
    for row in rows:
        for policy, text in zip(found, row[2:], strict=True):
            found[policy].append(tuple(float(p.replace("−", "-")) for p in text.split(", ")))
    return found


def read(source: Path) -> dict[tuple[str, str], Cell]:
    """The cells of a sweep's folder, or of a file of kept results."""
    if source.is_dir():
        rows = finished(sweep.load(source)).table  # a shard, or one that was stopped, has fewer
    else:
        rows = kept_results.read(source).table
    cells: dict[tuple[str, str], Cell] = {}
    names = {name: key for key, name in METRICS.items()}
    for row in rows.itertuples(index=False):
        if row.metric in names:
            cells.setdefault(place_of(row), {})[row.policy, names[row.metric]] = row
    return cells


def place_of(row: Any) -> tuple[str, str]:
    """Ratio and load: two axes, or one that names both."""
    if not hasattr(row, "cell"):
        return str(row.ratio), str(row.load)
    ratio, load = re.findall(r"\d+", row.cell)
    return ratio, load


def run(cells: dict[tuple[str, str], Cell], policies: tuple[str, ...]) -> list[str]:
    """Those policies that were run in every cell."""
    return [one for one in policies if all((one, "iteration") in cell for cell in cells.values())]


def goal(
    cells: dict[tuple[str, str], Cell], order: list[tuple[str, str]], ours: str
) -> Iterator[str]:
    """Cell by cell, what a policy reaches of the goal."""
    yield (
        f"| R | flows/s | iteration: low | {ours} | small FCT over low's | "
        "medium FCT | of low's gain | large FCT | of low's gain | goal |"
    )
    yield "| --- " * 10 + "|"
    met = 0
    for place in order:
        cell = cells[place]
        missed = misses(cell, ours)
        met += not missed
        parts = [
            *place,
            shown(cell[LOW, "iteration"]),
            shown(cell[ours, "iteration"]),
            f"{over_low(cell, ours):.2f}",
        ]
        for key in ("medium", "large"):
            parts += [shown(cell[ours, key]), f"{100 * kept(cell, ours, key):.0f} %"]
        verdict = "met" if not missed else "missed: " + ", ".join(missed)
        yield f"| {' | '.join([*parts, verdict])} |"
    yield ""
    yield f"Goal met in {met} of {len(order)} cells."


def misses(cell: Cell, ours: str) -> list[str]:
    """Which parts of the goal a cell misses, by the means."""
    missed = ["small"] if over_low(cell, ours) > MOST_SMALL else []
    if cell[ours, "iteration"].change > MOST_ITERATION:
        missed.append("iteration")
    cheap = cell[LOW, "iteration"].change < CHEAP
    for key in ("medium", "large"):
        if cell[ours, key].change > 0:
            missed.append(f"{key} (no worse)")
        elif cheap and kept(cell, ours, key) < KEPT:
            missed.append(f"{key} (60 %)")
    return missed


def over_low(cell: Cell, ours: str) -> float:
    return float(cell[ours, "small"].value / cell[LOW, "small"].value)


def kept(cell: Cell, ours: str, key: str) -> float:
    """What there is of low's gain."""
    return float(cell[ours, key].change / cell[LOW, key].change)


def policies(cells: dict[tuple[str, str], Cell], order: list[tuple[str, str]]) -> Iterator[str]:
    """Every policy's changes: iteration, small, medium and large flows."""
    columns = run(cells, COLUMNS)
    yield f"| R | flows/s | {' | '.join(columns)} |"
    yield "| --- " * (2 + len(columns)) + "|"
    for place in order:
        found = [
            ", ".join(percent(cells[place][policy, key].change) for key in METRICS)
            for policy in columns
        ]
        yield f"| {' | '.join([*place, *found])} |"


def percent(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def shown(row: Any) -> str:
    text = f"{percent(row.change)} %"
    if pd.notna(row.change_low):
        text += f" ({percent(row.change_low)} to {percent(row.change_high)})"
    return text


@matplotlib.rc_context(fname=STYLE)
def pareto(changes: Changes, engine: str) -> Figure:
    """What small flows gain against what training pays: a point a cell, a large one the median."""
    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=colour("muted"), linewidth=1)
    axes.axvspan(-100, 1, color=colour("shade"), linewidth=0, zorder=0)
    axes.text(
        0.9, MOST_LEFT - 4, "training pays at most 1 %", ha="right", va="top", color=colour("muted")
    )
    for policy, points in changes.items():
        at = COLUMNS.index(policy)  # the same look on either engine
        look = {"color": colour(f"policy-{at}"), "marker": MARKERS[at], "linestyle": ""}
        paid = [iteration for iteration, *_ in points]
        left = [100 + small for _, small, *_ in points]
        axes.plot(paid, left, markersize=4, alpha=0.55, **look)
        axes.plot(
            [median(paid)], [median(left)], markersize=12, markeredgecolor=colour("ink"),
            label=policy, **look,
        )  # fmt: skip
    axes.set_xscale("symlog", linthresh=2, linscale=0.8)
    ticks = [-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50, 100, 200]
    axes.set_xticks(ticks, [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in ticks])
    axes.set_xlim(-60, 250)
    axes.set_ylim(0, MOST_LEFT)
    axes.set_xlabel("what training pays: iteration against FIFO (%, not linear)")
    axes.set_ylabel("what small flows are left with: mean FCT, % of FIFO's")
    axes.set_title(
        f"Who gives way, at what price: {len(points)} cells of the thesis grid ({engine})"
    )
    axes.legend(loc="upper right", title="large: the median cell", frameon=True)
    return figure


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
