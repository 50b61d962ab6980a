"""The pictures that metrics ask for in their own files: what changes, and what was measured.

Nothing here knows a metric by its name: a new one is drawn as its `plot` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from analysis import metrics, words
from analysis.claims import value_of
from analysis.folder import Plan
from analysis.look import Look, Picture, colour, new_figure, picture, styled
from analysis.metrics import ALL, FLOWS, TIME, TRAINING, Bars, Metric, Values, axis_label
from analysis.plots import MOST_JOBS, in_lines


@dataclass(frozen=True)
class PlottedMetric:
    """A metric of somebody, and what it is called in a picture."""

    name: str
    metric: Metric
    whose: str


@styled
def change_bars(summary: Mapping[str, Any], plan: Plan, looks: Mapping[str, Look]) -> list[Picture]:
    """Change against the first policy, a panel for each title, with intervals."""
    panels: dict[str, list[Metric]] = {}
    for metric in metrics.available().values():
        if isinstance(metric.plot, Bars):
            panels.setdefault(metric.plot.panel, []).append(metric)
    found = []
    for number, (title, shown) in enumerate(panels.items()):
        rows = [
            row
            for row in _rows(summary, shown)
            if any(_change(summary, other.label, row) is not None for other in plan.others)
        ]
        if rows:
            found.append(_bars(summary, plan, looks, rows, f"change-{number}", title))
    return found


def _rows(summary: Mapping[str, Any], shown: Sequence[Metric]) -> list[PlottedMetric]:
    """Whose each metric is; where one subject has several in a picture, they are told apart."""
    first = next(iter(summary["policies"].values()))
    found = []
    for metric in shown:
        places = [whose for whose in metric.of.places(first) if (metric.of, whose) != (FLOWS, ALL)]
        one_job = metric.of is TRAINING and len(places) == 1
        alone = sum(other.of is metric.of for other in shown) == 1
        for whose in places[:MOST_JOBS]:
            name = "iterations" if one_job else in_lines(metric.of.called(whose))
            found.append(PlottedMetric(name if alone else f"{name}, {metric.title}", metric, whose))
    return found


def _bars(
    summary: Mapping[str, Any],
    plan: Plan,
    looks: Mapping[str, Look],
    rows: Sequence[PlottedMetric],
    slug: str,
    title: str,
) -> Picture:
    others = plan.others
    thickness = 0.78 / len(others)
    figure, axes = new_figure(0.95 + len(rows) * (0.30 + 0.14 * len(others)))
    said = []
    for index, other in enumerate(others):
        look = looks[other.label]
        for at_row, row in enumerate(rows):
            entry = _change(summary, other.label, row)
            if entry is None:
                continue
            at = at_row + (index - (len(others) - 1) / 2) * thickness
            value = 100 * entry["change"]
            axes.barh(at, value, thickness * 0.86, color=look.colour, alpha=0.55, linewidth=0)
            ends = words.known(entry["interval_95"])
            if ends is not None:
                axes.plot([100 * ends[0], 100 * ends[1]], [at, at], color=colour("ink"), lw=1.4)
            axes.plot(value, at, look.marker, color=look.colour, markersize=5)
            said.append(
                f"{look.title}, {row.name}: {words.percent(entry['change'])} "
                f"({words.percent_interval(entry['interval_95'])})"
            )
    axes.axvline(0, color=colour("ink"), linewidth=1)
    _name_rows(axes, [row.name for row in rows])
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -1), max(high, 1))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(_signed_percent))
    axes.set_xlabel(f"change against {plan.first.title}{_better([row.metric for row in rows])}")
    axes.set_title(title)
    alt = f"{title}, change with 95 % interval. " + "; ".join(said) + "."
    return picture(figure, slug, alt)


@styled
def values(summary: Mapping[str, Any], looks: Mapping[str, Look]) -> list[Picture]:
    """A panel for each metric that asks for one: its values under all policies."""
    shown = [one for one in metrics.available().values() if isinstance(one.plot, Values)]
    panels = [_values(summary, looks, metric) for metric in shown]
    return [panel for panel in panels if panel is not None]


def _values(
    summary: Mapping[str, Any], looks: Mapping[str, Look], metric: Metric
) -> Picture | None:
    policies = summary["policies"]
    found = [
        (row, {label: value_of(entry, metric, row.whose) for label, entry in policies.items()})
        for row in _rows(summary, [metric])
    ]
    found = [(row, under) for row, under in found if any(v is not None for v, _ in under.values())]
    numbers = [v for _, under in found for v, _ in under.values() if v is not None]
    if not numbers:
        return None
    length, unit = metric.unit.axis(max(numbers, key=abs))
    figure, axes = new_figure(0.95 + len(found) * (0.30 + 0.14 * len(policies)))
    said = []
    for at_row, (row, under) in enumerate(found):
        for index, (label, (value, interval)) in enumerate(under.items()):
            if value is None:
                continue
            at = at_row + (index - (len(policies) - 1) / 2) * 0.78 / len(policies)
            look = looks[label]
            ends = words.known(interval)
            if ends is not None:
                axes.plot(np.array(ends) / length, [at, at], color=colour("ink"), linewidth=1.4)
            axes.plot(
                value / length, at, look.marker, color=look.colour, markersize=7,
                markeredgecolor=colour("ink"), markeredgewidth=1,
            )  # fmt: skip
            said.append(f"{look.title}, {row.name}: {metric.unit.shown(value)}")
    _name_rows(axes, [row.name for row, _ in found])
    log = isinstance(metric.plot, Values) and metric.plot.log and min(numbers) > 0
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    told = ", ".join(part for part in (unit, "log axis" if log else "") if part)
    axes.set_xlabel(axis_label(metric.title, told) + _better([metric]))
    axes.set_title(metric.alone)
    alt = f"{metric.alone}: {metric.meaning}; with 95 % intervals. {'; '.join(said)}."
    slug = f"values-{metric.of.section}-{metric.name}".replace(".", "-")
    return picture(figure, slug, alt, f"{metric.meaning[0].upper()}{metric.meaning[1:]}.")


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _change(summary: Mapping[str, Any], label: str, row: PlottedMetric) -> dict[str, Any] | None:
    changes = summary["policies"][label]["change"]
    found: dict[str, Any] | None = changes.get(row.metric.path(row.whose))
    return found if found is not None and found["change"] is not None else None


def _better(shown: Sequence[Metric]) -> str:
    """Which way is better, where all of them agree."""
    ways = {metric.better for metric in shown}
    if ways == {"lower"}:
        return (
            " (left is faster)" if all(one.unit is TIME for one in shown) else " (left is better)"
        )
    return " (right is better)" if ways == {"higher"} else ""


def _signed_percent(value: float, _: int) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+g} %".replace("-", words.MINUS)
