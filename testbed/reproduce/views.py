"""The panels of an entry: its views of a sweep, or what was computed."""

from analysis import metrics, views
from analysis import slack as slack_view
from analysis.sweep import Grid
from analysis.sweep_plots import MapField
from analysis.views import Panel
from basics import units
from basics.errors import BadInput
from testbed.reproduce.entry import Entry, View
from testbed.reproduce.kept_results import Kept
from testbed.reproduce.slack import slack
from workloads import profiles


def panels(entry: Entry, grid: Grid) -> list[Panel]:
    return [panel_of(view, grid, f"view-{number}") for number, view in enumerate(entry.views)]


def panel_of(view: View, grid: Grid, slug: str) -> Panel:
    _check(view, grid)
    policies = view.of or grid.policies
    if view.kind == "map":
        bounds = tuple(units.change(text) for text in view.bounds)
        return views.map_over(
            grid, view.title, slug, view.metric, policies[0], view.value, (view.rows, view.columns),
            (bounds[0], bounds[1]) if bounds else None, view.at,
        )  # fmt: skip
    if view.kind == "timelines":
        return views.timelines_at(grid, view.title, slug, view.points, policies[0])
    if view.kind == "waits":
        return views.waits_at(grid, view.title, slug, view.points, policies)
    if view.kind == "hosts":
        return views.hosts_at(grid, view.title, slug, view.points, policies)
    if view.points:
        places = {", ".join(place.values()): place for place in view.points}
        axis_title = ", ".join(view.points[0])
    else:
        axis = views.axis_of(grid, view.columns)
        places = {label: {**view.at, axis.name: label} for label in axis.labels}
        axis_title = axis.title
    if view.by:
        series = {
            label: (policies[0], {view.by: label}) for label in views.axis_of(grid, view.by).labels
        }
    else:
        series = {grid.title_of(policy): (policy, {}) for policy in policies}
    return views.lines_over(
        grid, view.title, slug, view.metric, places, series, axis_title, view.value
    )


def _check(view: View, grid: Grid) -> None:
    known = {axis.name for axis in grid.axes}
    named = {view.rows, view.columns, view.by, *view.at, *(a for p in view.points for a in p)} - {
        ""
    }
    if not named <= known:
        raise BadInput(
            f"view {view.title}: {', '.join(sorted(named - known))}: no axis of the sweep, which "
            f"has {', '.join(sorted(known))}"
        )
    for policy in view.of:
        if policy not in grid.policies:
            raise BadInput(f"view {view.title}: of: {policy} is no policy of the sweep")


def computed(entry: Entry) -> list[Panel]:
    """What needs no engine."""
    profile = profiles.load(entry.profile)
    rows = [
        (layer.layer, layer.bytes, layer.ready_ns, layer.needed_ns, layer.barrier_ns)
        for layer in slack(profile)
    ]
    return slack_view.panels(profile.name, rows)


def alone(kept: Kept) -> Panel:
    """All that was kept of the entry's own engine."""
    rows = [
        (
            _named(place),
            title,
            _text(views.cell_in(kept.table, metric, policy, place, column), metric, column),
        )
        for place in kept.places
        for title, metric, policy, column in kept.questions
    ]
    return Panel(
        f"Every cell, {kept.engine}", (), ("point", "what", kept.engine), tuple(rows),
        f"`{kept.command}`, kept with the entry.",
    )  # fmt: skip


def side_by_side(entry: Entry, grid: Grid | Kept, other: Kept) -> Panel:
    """What the entry shows on both engines, at the points and settings that both have."""
    rows = []
    for place in other.places:
        for title, metric, policy, column in other.questions:
            ours, theirs = (
                views.cell_in(table, metric, policy, place, column)
                for table in (grid.table, other.table)
            )
            if theirs.value is None:
                continue
            published = [
                f"{100 * target.value:+.0f} %"
                for target in entry.targets
                if (target.metric, target.of, target.kind, target.at)
                == (metric, policy, column, place)
                and column != "value"
            ]
            texts = (_text(cell, metric, column) for cell in (ours, theirs))
            apart = _apart(ours, theirs, column)
            rows.append((_named(place), title, *texts, apart, *published[:1]))
    assert entry.beside is not None
    asked = f"--engine {other.engine}" if entry.beside.instead else "--beside"
    with_ = other.engine if entry.beside.there_only else "Both"
    return Panel(
        f"{grid.engine} beside {other.engine}",
        (),
        ("point", "what", grid.engine, other.engine, "apart", "published"),
        tuple((*row, "")[:6] for row in rows),
        (f"{with_} with {', '.join(f'`{one}`' for one in other.set)}. " if other.set else "")
        + f"{other.engine}: `{other.command} {asked}`, kept with the entry.",
    )


def _named(place: dict[str, str]) -> str:
    return ", ".join(f"{axis} {label}" for axis, label in place.items())


def _text(cell: MapField, metric: str, column: str) -> str:
    if column != "value":
        return views.with_interval(cell)
    return views.valued(cell, metrics.known(metric).unit)


def _apart(ours: MapField, theirs: MapField, column: str) -> str:
    if ours.value is None or theirs.value is None:
        return ""
    if column != "value":
        return f"{100 * (ours.value - theirs.value):+.1f} points"
    return f"{100 * (ours.value / theirs.value - 1):+.1f} %" if theirs.value else ""
