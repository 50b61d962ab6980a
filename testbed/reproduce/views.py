"""The panels of an entry: its views of a sweep, or what was computed."""

from analysis import slack as slack_view
from analysis import views
from analysis.sweep import Grid
from analysis.views import Panel
from testbed import units
from testbed.errors import BadInput
from testbed.reproduce.entry import Beside, Entry, View
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
            (bounds[0], bounds[1]) if bounds else None,
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


def side_by_side(entry: Entry, beside: Beside, grid: Grid, other: Grid) -> Panel:
    """Each mapped metric on both engines, at the points that both have."""
    maps = [view for view in entry.views if view.kind == "map"]
    rows = []
    for labels in other.points:
        place = dict(zip((axis.name for axis in other.axes), labels, strict=True))
        for view in maps:
            cells = [
                views.with_interval(
                    views.cell_at(found, view.metric, view.of[0], place, view.value)
                )
                for found in (grid, other)
            ]
            rows.append((", ".join(f"{k} {v}" for k, v in place.items()), view.title, *cells))
    seeds = ", ".join(str(seed) for seed in other.seeds)
    return Panel(
        f"{grid.engine} beside {other.engine}",
        (),
        ("point", "what", grid.engine, other.engine),
        tuple(rows),
        f"{other.engine}: seed {seeds}; {grid.engine}: seeds {', '.join(map(str, grid.seeds))}.",
    )
