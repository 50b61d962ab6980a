"""The pictures of a sweep: maps over two axes, lines over one.

`cells` and `lines` know nothing of policies or metrics, so that a reproduction can draw its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import words
from analysis.look import Look, Picture, colour, new_figure, picture, styled
from analysis.metrics import Better, Unit, axis_label

MOST_TEXTS = 12  # columns of a map that still leave room for numbers
MOST_TICKS = 12
NOTHING = "nothing was measured"
MOST_LETTERS = 60  # of all labels below a picture that still fit side by side
STRONG = 0.1  # a change that may have the strongest colour, if no other is larger


@dataclass(frozen=True)
class MapField:
    """One field of a map: a share, its interval if known, and how strongly it is coloured."""

    value: float | None
    interval: words.Interval = None


SweepRow = Mapping[Any, Any]  # of a sweep's table


def cell_of(row: SweepRow, column: str) -> MapField:
    """A value, a change or a reduction of a row, with its interval."""
    prefix = "" if column == "value" else f"{column}_"

    def known(name: str) -> float | None:
        return None if pd.isna(row[name]) else float(row[name])

    return MapField(known(column), (known(f"{prefix}low"), known(f"{prefix}high")))


Shade = Callable[[float], tuple[str, float]]  # a value -> (name of a colour, opacity)


def by_bounds(good: float, bad: float) -> Shade:
    """Green below the first bound, red above the second, yellow between: a traffic light."""

    def shade(value: float) -> tuple[str, float]:
        name = "gain" if value < good else "pay" if value > bad else "middling"
        return name, 0.75

    return shade


def by_sign(values: Sequence[float | None], better: Better = "lower") -> Shade:
    """Green for gains and red for losses, the stronger the larger; little is pale everywhere."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    largest = max(largest, STRONG)

    def shade(value: float) -> tuple[str, float]:
        gain = (value < 0) == (better == "lower")
        name = "muted" if better == "neither" else "gain" if gain else "pay"
        return name, 0.08 + 0.72 * min(1.0, abs(value) / largest)

    return shade


@styled
def cells(
    found: Mapping[tuple[str, str], MapField],
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    title: str,
    slug: str,
    shade: Shade,
    text: Callable[[float | None], str] = words.percent,
    caption: str = "",
) -> Picture:
    """A map: (row label, column label) -> cell. Rows and columns are (title, labels)."""
    row_title, row_labels = rows
    column_title, column_labels = columns
    height = min(0.5, 8.0 / len(row_labels))
    figure, axes = new_figure(1.0 + height * len(row_labels))
    said = []
    for y, row in enumerate(row_labels):
        for x, column in enumerate(column_labels):
            cell = found.get((row, column))
            if cell is None or cell.value is None:
                continue
            name, opacity = shade(cell.value)
            axes.fill_between(
                [x - 0.47, x + 0.47], y - 0.46, y + 0.46,
                color=colour(name), alpha=opacity, linewidth=0,
            )  # fmt: skip
            said.append(f"{row}, {column}: {text(cell.value)}")
            if len(column_labels) <= MOST_TEXTS:
                ends = words.known(cell.interval)
                axes.text(
                    x,
                    y - 0.13 * bool(ends),
                    text(cell.value),
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=colour("ink"),
                )
                if ends:
                    axes.text(
                        x, y + 0.24, _short_interval(ends),
                        ha="center", va="center", fontsize=7.2, color=colour("ink"),
                    )  # fmt: skip
    axes.set_xlim(-0.5, len(column_labels) - 0.5)
    axes.set_ylim(len(row_labels) - 0.5, -0.5)
    column_title, column_labels = with_unit(column_title, column_labels)
    axes.set_xticks(*_ticks(column_labels))
    axes.set_yticks(*_ticks(row_labels))
    axes.grid(visible=False)
    axes.set_xlabel(column_title)
    axes.set_ylabel(row_title)
    axes.set_title(title)
    shown = "; ".join(said[:40]) + ("; …" if len(said) > 40 else "")
    return picture(figure, slug, f"{title}, by {row_title} and {column_title}. {shown}.", caption)


@dataclass(frozen=True)
class Curve:
    """One curve: a value, and its interval if known, at each label of the axis."""

    look: Look
    values: Mapping[str, MapField]


@styled
def lines(
    curves: Sequence[Curve],
    axis: tuple[str, Sequence[str]],
    title: str,
    slug: str,
    what: str,
    *,
    unit: Unit,
    caption: str = "",
) -> Picture:
    """Curves over the labels of one axis, with their 95 % intervals as bands."""
    axis_title, labels = axis
    largest = max(
        (
            cell.value
            for curve in curves
            for cell in curve.values.values()
            if cell.value is not None
        ),
        default=None,
    )
    length, symbol = unit.axis(largest) if largest is not None else (1.0, "")
    figure, axes = new_figure(2.5)
    if largest is None:
        axes.set_yticks([])
        axes.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=axes.transAxes)
    said = []
    for curve in curves:
        at = [x for x, label in enumerate(labels) if _value(curve, label) is not None]
        values = np.array([_value(curve, labels[x]) for x in at], dtype=float) / length
        known = [words.known(curve.values[labels[x]].interval) for x in at]
        if at and all(ends is not None for ends in known):
            low, high = (np.array([ends[side] for ends in known if ends]) for side in (0, 1))
            axes.fill_between(
                at, low / length, high / length,
                color=curve.look.colour, alpha=0.16, linewidth=0,
            )  # fmt: skip
        axes.plot(
            at, values,
            color=curve.look.colour, linestyle=curve.look.dash, marker=curve.look.marker,
        )  # fmt: skip
        told = ", ".join(f"{labels[x]} {value:.3g}" for x, value in zip(at, values, strict=True))
        said.append(f"{curve.look.title}: {told or NOTHING}")
    axis_title, labels = with_unit(axis_title, labels)
    shown, texts = _ticks(labels)
    crowded = sum(len(text) + 2 for text in texts) > MOST_LETTERS
    axes.set_xticks(shown, texts, **({"rotation": 30, "ha": "right"} if crowded else {}))
    axes.set_xlabel(axis_title)
    axes.set_ylabel(axis_label(what, symbol))
    axes.set_title(title)
    _from_zero(axes)
    alt = f"{title}: {axis_label(what, symbol)} by {axis_title}. {'; '.join(said)}."
    return picture(figure, slug, alt, caption)


def _value(curve: Curve, label: str) -> float | None:
    cell = curve.values.get(label)
    return None if cell is None else cell.value


def _from_zero(axes: Any) -> None:
    """Begin at zero unless that would flatten what there is to see."""
    low, high = axes.get_ylim()
    if low > 0 and (high - low) > 0.35 * high:
        axes.set_ylim(0, high)


def with_unit(title: str, labels: Sequence[str]) -> tuple[str, list[str]]:
    """A unit that all labels have is said once, with the title."""
    parts = [label.split(" ", 1) for label in labels]
    units = {part[1] if len(part) == 2 else "" for part in parts}
    if len(units) != 1 or "" in units:
        return title, list(labels)
    return f"{title} ({units.pop()})", [part[0] for part in parts]


def _ticks(labels: Sequence[str]) -> tuple[list[int], list[str]]:
    step = -(-len(labels) // MOST_TICKS)
    shown = list(range(0, len(labels), step))
    return shown, [_short(labels[at]) for at in shown]


def _short(label: str, most: int = 14) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _short_interval(ends: tuple[float, float]) -> str:
    return words.percent_interval(ends).replace(f"{words.SPACE}%", "").replace(" to ", " … ")
