"""Panels: one question put to a sweep, answered by a picture and by a table of the same numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas as pd

from analysis import (
    folder,
    look,
    metrics,
    straggler_plots,
    stragglers,
    sweep_plots,
    timeline,
    words,
)
from analysis.look import Picture
from analysis.metrics import SHARE, Better, Unit
from analysis.summary import Summary
from analysis.sweep import Grid, GridAxis
from analysis.sweep_plots import Curve, MapField

Place = Mapping[str, str]  # a label for some of the axes
WAITS = ("jobs.barrier_wait_mean", "jobs.barrier_wait_variance")
NETWORK_USES = ("sent", "received")


@dataclass(frozen=True)
class Panel:
    title: str
    pictures: tuple[Picture, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def map_over(
    grid: Grid,
    title: str,
    slug: str,
    metric: str,
    policy: str,
    column: str,
    axes: tuple[str, str],
    bounds: tuple[float, float] | None = None,
    at: Place | None = None,
) -> Panel:
    """One metric under one policy over two axes; traffic-light colours where bounds are given.

    `at`: where on the axes that it is not over.
    """
    rows, columns = (axis_of(grid, name) for name in axes)
    found = {
        (row, label): cell_at(
            grid, metric, policy, {**(at or {}), rows.name: row, columns.name: label}, column
        )
        for row in rows.labels
        for label in columns.labels
    }
    values = [cell.value for cell in found.values()]
    shade = (
        sweep_plots.by_bounds(*bounds)
        if bounds
        else sweep_plots.by_sign(values, _better(metric, column))
    )
    picture = sweep_plots.cells(
        found, (rows.title, rows.labels), (columns.title, columns.labels), title, slug, shade
    )
    texts = tuple(
        (row, *(with_interval(found[row, label]) for label in columns.labels))
        for row in rows.labels
    )
    return Panel(title, (picture,), (f"{rows.name} \\ {columns.name}", *columns.labels), texts)


def lines_over(
    grid: Grid,
    title: str,
    slug: str,
    metric: str,
    places: Mapping[str, Place],
    series: Mapping[str, tuple[str, Place]],
    axis_title: str,
    column: str = "value",
) -> Panel:
    """Curves over labelled places; each series is a title -> (policy, its own place).

    A change is drawn as what is left of the value under the first policy.
    """
    looks = look.looks_of({name: name for name in series})
    curves = [
        Curve(
            looks[name],
            {
                label: cell_at(grid, metric, policy, {**place, **own}, column)
                for label, place in places.items()
            },
        )
        for name, (policy, own) in series.items()
    ]
    shown = metrics.known(metric)
    unit = shown.unit if column == "value" else SHARE
    if column == "value":
        drawn, what = curves, shown.title
    else:
        drawn = [
            Curve(curve.look, {label: _left(cell) for label, cell in curve.values.items()})
            for curve, (policy, _) in zip(curves, series.values(), strict=True)
            if policy != grid.policies[0]
        ]
        what = f"over {grid.title_of(grid.policies[0])}"
    picture = sweep_plots.lines(drawn, (axis_title, list(places)), title, slug, what, unit=unit)
    rows = tuple(
        (
            label,
            *(
                valued(curve.values[label], unit)
                if column == "value"
                else with_interval(curve.values[label])
                for curve in curves
            ),
        )
        for label in places
    )
    return Panel(title, (picture,), (axis_title, *series), rows, _legend(looks))


def timelines_at(grid: Grid, title: str, slug: str, places: Sequence[Place], policy: str) -> Panel:
    """One iteration at each place, worker by worker."""
    pictures = []
    for number, place in enumerate(places):
        results = folder.load(path_at(grid, place))
        looks = look.looks_of({policy: ", ".join(place.values())})
        drawn, _ = timeline.timelines(results, looks)
        pictures += [
            Picture(panel.svg.replace("timeline-0", f"{slug}-{number}"), panel.caption)
            for panel in drawn
        ]
    note = (
        "Upper bar: forward (dark) and backward (light) compute, interrupted by waiting; thin bar: "
        "transfers."
    )
    return Panel(title, tuple(pictures), note=note)


def waits_at(
    grid: Grid, title: str, slug: str, places: Sequence[Place], policies: Sequence[str]
) -> Panel:
    """Distributions of the mean and the variance of waits within barriers."""
    looks = look.looks_of({label: grid.title_of(label) for label in grid.policies})
    pictures = []
    rows = []
    for number, place in enumerate(places):
        results, summary = folder.load(path_at(grid, place)), summary_at(grid, place)
        drawn = straggler_plots.wait_cdfs(results, summary, looks, policies)
        pictures += [_renamed(picture, f"{slug}-{number}") for picture in drawn]
        for label in policies:
            cells = [
                (cell_at(grid, wait, label, place, "value"),
                 cell_at(grid, wait, label, place, "change"), metrics.known(wait).unit)
                for wait in WAITS
            ]  # fmt: skip
            texts = [
                (valued(own, unit), words.percent(change.value)) for own, change, unit in cells
            ]
            rows.append((", ".join(place.values()), grid.title_of(label), *chain(*texts)))
    header = ("point", "policy", "mean wait", "change", "variance", "change")
    note = _legend({label: looks[label] for label in policies})
    return Panel(title, tuple(pictures), header, tuple(rows), note)


def hosts_at(
    grid: Grid, title: str, slug: str, places: Sequence[Place], policies: Sequence[str]
) -> Panel:
    """What hosts do while jobs run: bars of the mean over hosts, and a row for each host."""
    looks = look.looks_of({label: grid.title_of(label) for label in grid.policies})
    pictures = []
    rows = []
    for number, place in enumerate(places):
        results, summary = folder.load(path_at(grid, place)), summary_at(grid, place)
        chosen = {**summary, "policies": {label: summary["policies"][label] for label in policies}}
        drawn = straggler_plots.host_bars(chosen, looks)
        pictures += [_renamed(picture, f"{slug}-{number}") for picture in drawn]
        held = [host for job in results.plan.jobs for host in job.servers]
        tables = [
            stragglers.host_values(results.of(label)[0], results.plan)
            .set_index("host")
            .to_dict("index")
            for label in policies
        ]
        for host in stragglers.hosts(results.plan):
            shares = [[float(table[host][use]) for use in NETWORK_USES] for table in tables]
            uses = [" / ".join(words.percent(one, signed=False) for one in own) for own in shares]
            rows.append((host, str(held.count(host)), *uses))
    titles = [f"{grid.title_of(label)}: sent / received" for label in policies]
    note = _legend({label: looks[label] for label in policies})
    return Panel(title, tuple(pictures), ("host", "servers", *titles), tuple(rows), note)


def summary_at(grid: Grid, place: Place) -> Summary:
    return grid.summaries[tuple(place[axis.name] for axis in grid.axes)]


def _renamed(picture: Picture, slug: str) -> Picture:
    """With identifiers of its own: the same picture may stand in a page several times."""
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{slug}-", picture.svg)
    return Picture(svg, picture.caption)


def axis_of(grid: Grid, name: str) -> GridAxis:
    return next(axis for axis in grid.axes if axis.name == name)


def path_at(grid: Grid, place: Place) -> Path:
    return grid.points[tuple(place[axis.name] for axis in grid.axes)]


def cell_at(grid: Grid, metric: str, policy: str, place: Place, column: str) -> MapField:
    return cell_in(grid.table, metric, policy, place, column)


def cell_in(table: pd.DataFrame, metric: str, policy: str, place: Place, column: str) -> MapField:
    chosen = table[(table["metric"] == metric) & (table["policy"] == policy)]
    for axis, label in place.items():
        chosen = chosen[chosen[axis] == label]
    rows = chosen.to_dict("records")
    return sweep_plots.cell_of(rows[0], column) if rows else MapField(None)


def with_interval(cell: MapField) -> str:
    interval = words.percent_interval(cell.interval)
    return words.percent(cell.value) + (f" ({interval})" if interval else "")


def _left(cell: MapField) -> MapField:
    """Of a change, what is left."""
    ends = words.known(cell.interval)
    return MapField(
        None if cell.value is None else 1 + cell.value,
        None if ends is None else (1 + ends[0], 1 + ends[1]),
    )


def valued(cell: MapField, unit: Unit) -> str:
    return unit.shown(cell.value)


def _better(metric: str, column: str) -> Better:
    """Which way is better: a reduction is a gain where less is."""
    better = metrics.known(metric).better
    if column != "reduction_thesis" or better == "neither":
        return better
    return "higher" if better == "lower" else "lower"


def _legend(looks: Mapping[str, look.Look]) -> str:
    return "; ".join(f"{found.mark} {found.title}" for found in looks.values())
