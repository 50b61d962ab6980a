"""Panels: one question put to a sweep, answered by a picture and by a table of the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis import folder, look, sweep_plots, timeline, words
from analysis.look import Picture
from analysis.sweep import Axis, Grid, unit_of
from analysis.sweep_plots import Cell, Line

Place = Mapping[str, str]  # a label for some of the axes


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
) -> Panel:
    """One metric under one policy over two axes; traffic-light colours where bounds are given."""
    rows, columns = (axis_of(grid, name) for name in axes)
    found = {
        (row, label): cell_at(grid, metric, policy, {rows.name: row, columns.name: label}, column)
        for row in rows.labels
        for label in columns.labels
    }
    values = [cell.value for cell in found.values()]
    shade = (
        sweep_plots.by_bounds(*bounds)
        if bounds
        else sweep_plots.by_sign(values, lower_is_better=column != "reduction_thesis")
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
) -> Panel:
    """Curves over labelled places; each series is a title -> (policy, its own place)."""
    looks = look.looks_of({name: name for name in series})
    timed = unit_of(metric) == "ns"
    curves = [
        Line(
            looks[name],
            {
                label: cell_at(grid, metric, policy, {**place, **own}, "value")
                for label, place in places.items()
            },
        )
        for name, (policy, own) in series.items()
    ]
    what = "mean" if timed else metric.rpartition(".")[2]
    picture = sweep_plots.lines(curves, (axis_title, list(places)), title, slug, what, timed=timed)
    rows = tuple(
        (label, *(_valued(curve.values[label], timed) for curve in curves)) for label in places
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


def axis_of(grid: Grid, name: str) -> Axis:
    return next(axis for axis in grid.axes if axis.name == name)


def path_at(grid: Grid, place: Place) -> Path:
    return grid.points[tuple(place[axis.name] for axis in grid.axes)]


def cell_at(grid: Grid, metric: str, policy: str, place: Place, column: str) -> Cell:
    table = grid.table
    chosen = table[(table["metric"] == metric) & (table["policy"] == policy)]
    for axis, label in place.items():
        chosen = chosen[chosen[axis] == label]
    rows = chosen.to_dict("records")
    return sweep_plots.cell_of(rows[0], column) if rows else Cell(None)


def with_interval(cell: Cell) -> str:
    interval = words.percent_interval(cell.interval)
    return words.percent(cell.value) + (f" ({interval})" if interval else "")


def _valued(cell: Cell, timed: bool) -> str:
    if cell.value is None:
        return words.NONE
    return words.duration(cell.value) if timed else f"{cell.value:.3f}"


def _legend(looks: Mapping[str, look.Look]) -> str:
    return "; ".join(f"{found.mark} {found.title}" for found in looks.values())
