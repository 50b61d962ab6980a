"""Who gains, who pays as a picture: policies down, tenants across, blue is sooner, orange is later.

The wide form, for a README, has the intervals in its cells; the one in the report has its table
beside it and must be readable on a phone.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from analysis import look, tables, words
from analysis.look import Picture, colour, picture, styled
from analysis.tables import Matrix, TableField

STRONGEST = 0.62  # opacity: text on it stays readable in both colour schemes
FAINTEST = 0.10
WIDE_INCH = 8.4
WIDE_DPI = 200
MOST_COLUMNS = 6  # more do not fit beside each other on a phone


@styled
def matrix(summary: Mapping[str, Any]) -> list[Picture]:
    """The picture for the report; none where it would be too wide to read."""
    found = tables.tenants_table(summary, short=True)
    if len(found.columns) > MOST_COLUMNS:
        return []
    figure = Figure(figsize=(look.WIDTH_INCH, 0.75 + 0.3 * len(found.rows)))
    _draw(figure, found, wide=False)
    said = "; ".join(
        f"{title}: " + ", ".join(f"{who} {_said(cell)}" for who, cell in _beside(found, cells))
        for title, cells in found.rows
    )
    caption = "Blue is sooner, orange is later, grey is no clear change."
    return [picture(figure, "tenants", f"Who gains, who pays. {said}.", caption)]


@styled
def write_png(summary: Mapping[str, Any], path: Path) -> Path:
    """The wide form as a file of its own, on white, so that it reads on a page of any colour."""
    found = tables.tenants_table(summary, short=True)
    figure = Figure(
        figsize=(WIDE_INCH, 1.15 + 0.46 * len(found.rows)),
        facecolor="white",
        layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06),
    )
    _draw(figure, found, wide=True)
    seeds = len(summary["seeds"])
    figure.suptitle(
        f"{summary['name']}: who gains, who pays",
        x=0.012,
        ha="left",
        fontsize=13,
        fontweight="bold",
        color=colour("ink"),
    )
    figure.supxlabel(
        f"Change of the mean (completion time of flows, iteration time of jobs), 95 % interval "
        f"below it; {summary['engine']} engine, {seeds} seed{'s' * (seeds > 1)}.\n"
        "Blue is sooner, orange is later, the stronger the more; grey is no clear change.",
        x=0.012,
        ha="left",
        fontsize=9,
        color=colour("muted"),
    )
    figure.savefig(path, dpi=WIDE_DPI, transparent=False, metadata={"Software": None})
    return path


def strength(change: float) -> float:
    """How strongly a change is coloured, 0 to 1: halved and doubled are the same, and the most."""
    return min(1.0, abs(math.log2(1 + change))) if change > -1 else 1.0


def _draw(figure: Figure, found: Matrix, *, wide: bool) -> None:
    axes = figure.add_subplot()
    size = 11 if wide else 9
    for y, (_, cells) in enumerate(found.rows):
        for x, cell in enumerate(cells):
            name, opacity = _fill(cell)
            axes.add_patch(
                Rectangle(
                    (x - 0.48, y - 0.46), 0.96, 0.92,
                    facecolor=colour(name), alpha=opacity, linewidth=0,
                )
            )  # fmt: skip
            plain = cell.verdict in ("", "unclear", "few")
            below = cell.interval if wide else ""
            axes.text(
                x,
                y - 0.15 * bool(below),
                cell.change or cell.value,
                ha="center",
                va="center",
                fontsize=size,
                fontweight="normal" if plain else "bold",
                color=colour("muted" if plain and cell.change else "ink"),
            )
            if below:
                axes.text(
                    x, y + 0.24, below,
                    ha="center", va="center", fontsize=8.5,
                    color=colour("muted" if plain else "ink"),
                )  # fmt: skip
    axes.set_xlim(-0.5, len(found.columns) - 0.5)
    axes.set_ylim(len(found.rows) - 0.5, -0.5)
    axes.set_xticks(range(len(found.columns)), [words.two_lines(title) for title in found.columns])
    axes.set_yticks(range(len(found.rows)), [title for title, _ in found.rows])
    axes.tick_params(length=0, labelsize=size, labelcolor=colour("ink"), top=True, bottom=False)
    axes.tick_params(labeltop=True, labelbottom=False)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _fill(cell: TableField) -> tuple[str, float]:
    if cell.verdict not in ("better", "worse") or cell.share is None:
        return "shade", 1.0 if cell.change else 0.0
    name = "sooner" if cell.verdict == "better" else "later"
    return name, FAINTEST + (STRONGEST - FAINTEST) * strength(cell.share)


def _beside(found: Matrix, cells: tuple[TableField, ...]) -> list[tuple[str, TableField]]:
    return list(zip(found.columns, cells, strict=True))


def _said(cell: TableField) -> str:
    if not cell.change:
        return cell.value
    unclear = tables.CLARITY.get(cell.verdict)
    return f"{cell.change} ({unclear})" if unclear else cell.change
