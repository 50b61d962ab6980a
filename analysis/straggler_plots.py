"""The pictures of jobs that wait for each other: completion times, barrier waits, use of hosts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import metrics, stragglers, words
from analysis.folder import Plan, Results
from analysis.look import Look, Picture, colour, new_figure, picture, styled
from analysis.metrics import HOSTS, JOBS, SHARE, Floats, Metric, axis_label

USE_COLOURS = {"computing": "forward", "sent": "policy-2", "received": "policy-1"}  # over time
FAR = 4  # times the 98th percentile: what lies beyond is named, not drawn
INTERVALS = 60  # of a run, in the picture of a host over time


def pictures(
    results: Results, summary: Mapping[str, Any], looks: Mapping[str, Look]
) -> dict[str, list[Picture]]:
    """Everything for the report; empty lists where there are no such jobs."""
    if not stragglers.present(results.plan):
        return {"completion": [], "waits": [], "host_bars": [], "host_times": []}
    return {
        "completion": completion(summary, results.plan, looks),
        "waits": wait_cdfs(results, summary, looks),
        "host_bars": host_bars(summary, looks),
        "host_times": host_times(results, looks),
    }


@styled
def completion(summary: Mapping[str, Any], plan: Plan, looks: Mapping[str, Look]) -> list[Picture]:
    """Each job's completion time over that under the first policy; the change of the mean."""
    jct = metrics.headline(JOBS)
    figure, axes = new_figure(1.0 + 0.42 * len(plan.policies))
    said = []
    for row, policy in enumerate(plan.policies):
        look, entry = looks[policy.label], summary["policies"][policy.label]
        values = [job["jct_normalised"] for job in entry["jobs"]["by_job"].values()]
        known = np.array([value for value in values if value is not None], dtype=float)
        if not len(known):
            continue
        scatter = 0.24 * np.random.default_rng(row).uniform(-1, 1, size=len(known))
        axes.plot(known, row + scatter, ".", color=look.colour, alpha=0.6, markersize=5)
        change = entry.get("change", {}).get(jct.path()) or {"change": 0.0}
        ends = words.known(change.get("interval_95"))
        if ends is not None:
            axes.plot([1 + ends[0], 1 + ends[1]], [row, row], color=colour("ink"), linewidth=2)
        if change["change"] is not None:
            _marker(axes, 1 + change["change"], row, look)
            said.append(f"{look.title} {1 + change['change']:.3f}")
    if not said:
        return []
    axes.axvline(1, color=colour("muted"), linestyle=":", linewidth=1.4)
    axes.set_yticks(range(len(plan.policies)), [looks[one.label].title for one in plan.policies])
    axes.set_ylim(len(plan.policies) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{jct.heading} over that under {plan.first.title}")
    axes.set_title(f"{jct.alone}s")
    alt = f"{jct.alone} over that under {plan.first.title}, mean: {'; '.join(said)}."
    return [picture(figure, "completion", alt)]


@styled
def wait_cdfs(
    results: Results,
    summary: Mapping[str, Any],
    looks: Mapping[str, Look],
    policies: Sequence[str] | None = None,
) -> list[Picture]:
    """Two panels, one barrier a step of the curve: mean and variance of the waits within it."""
    opened = {
        policy.label: pd.concat(
            [
                stragglers.barriers(run.table("barriers"), results.plan.window_ns)
                for run in results.of(policy.label)
            ]
        )
        for policy in results.plan.policies
        if policies is None or policy.label in policies
    }
    if not any(len(table) for table in opened.values()):
        return []
    return [
        _cdf(
            slug,
            metrics.known(path),
            {label: table[column].to_numpy(dtype=float) for label, table in opened.items()},
            summary,
            looks,
        )
        for slug, path, column in (
            ("wait-mean", "jobs.barrier_wait_mean", "mean_ns"),
            ("wait-variance", "jobs.barrier_wait_variance", "variance_ms2"),
        )
    ]


def _cdf(
    slug: str,
    metric: Metric,
    columns: Mapping[str, Floats],
    summary: Mapping[str, Any],
    looks: Mapping[str, Look],
) -> Picture:
    """Of a metric of jobs, barrier by barrier."""
    key, title = metric.key, metric.alone
    longest = max(float(values.max()) for values in columns.values() if len(values))
    length, unit = metric.unit.axis(longest)
    columns = {name: values / length for name, values in columns.items()}
    label = axis_label(title[0].lower() + title[1:], unit)
    figure, axes = new_figure()
    said = []
    for row, (name, values) in enumerate(columns.items()):
        look, jobs = looks[name], summary["policies"][name]["jobs"]
        ordered = np.sort(values)
        shares = 100 * np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
        axes.step(ordered, shares, where="post", color=look.colour, linestyle=look.dash)
        height = 50 + 5 * (row - (len(columns) - 1) / 2)
        ends = words.known(jobs["interval_95"][key])
        if ends is not None:
            axes.plot(np.array(ends) / length, [height] * 2, color=colour("ink"), linewidth=1.4)
        if jobs[key] is not None:
            _marker(axes, jobs[key] / length, height, look)
            said.append(f"{look.title} {jobs[key] / length:.3g}")
    axes.set_ylim(0, 101)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
    axes.set_xlim(left=0)
    most = max(float(np.quantile(values, 0.98)) for values in columns.values() if len(values))
    if most > 0 and longest / length > FAR * most:  # a few must not hide all the others
        axes.set_xlim(0, 1.25 * most)
        label += f", up to {longest / length:.3g}"
    axes.set_xlabel(label)
    axes.set_title(title)
    alt = f"{title}: share of barriers at or below a {label}. Means over jobs: {', '.join(said)}."
    return picture(figure, slug, alt)


@styled
def host_bars(summary: Mapping[str, Any], looks: Mapping[str, Look]) -> list[Picture]:
    """What hosts do on average while jobs run, policy by policy."""
    labels, uses = (
        list(summary["policies"]),
        [one for one in metrics.of(HOSTS) if one.unit is SHARE],
    )
    thickness = 0.78 / len(labels)
    figure, axes = new_figure(0.95 + len(uses) * (0.30 + 0.14 * len(labels)))
    said = []
    for index, label in enumerate(labels):
        look, found = looks[label], summary["policies"][label]["jobs"]["hosts"]
        for row, use in enumerate(uses):
            if found[use.key] is None:
                continue
            at = row + (index - (len(labels) - 1) / 2) * thickness
            value = 100 * found[use.key]
            axes.barh(at, value, thickness * 0.86, color=look.colour, alpha=0.55, linewidth=0)
            ends = words.known(found["interval_95"][use.key])
            if ends is not None:
                axes.plot([100 * ends[0], 100 * ends[1]], [at, at], color=colour("ink"), lw=1.4)
            said.append(f"{look.title}, {use.title}: {use.unit.shown(found[use.key])}")
    axes.set_yticks(range(len(uses)), [use.title for use in uses])
    axes.set_ylim(len(uses) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
    axes.set_xlabel("mean over hosts while jobs run")
    axes.set_title("Use of hosts")
    return [picture(figure, "host-use", f"Use of hosts while jobs run. {'; '.join(said)}.")]


def host_uses() -> dict[str, str]:
    """The legend of a host over time: the name of a colour, and what it stands for."""
    return {name: metrics.known(HOSTS.path("", use)).title for use, name in USE_COLOURS.items()}


@styled
def host_times(results: Results, looks: Mapping[str, Look]) -> list[Picture]:
    """The host with most servers over time, one panel a policy, first seed."""
    plan = results.plan
    held = [host for job in plan.jobs for host in job.servers]
    if not held:
        return []
    host = max(dict.fromkeys(held), key=held.count)
    edges = np.linspace(0, plan.duration_ns, INTERVALS + 1)
    panels = []
    for number, policy in enumerate(plan.policies):
        run = results.of(policy.label)[0]
        figure, axes = new_figure(2.5)
        said = []
        for name, values in stragglers.use_of(run, plan, host, edges).items():
            if np.isnan(values).all():
                continue
            axes.stairs(100 * values, edges / 1e9, color=colour(USE_COLOURS[name]), linewidth=1.3)
            use = metrics.known(HOSTS.path("", name))
            said.append(f"{use.title} {use.unit.shown(metrics.mean(values))}")
        axes.set_ylim(0, 102)
        axes.set_xlim(0, plan.duration_ns / 1e9)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        axes.set_xlabel("time (s)")
        axes.set_title(f"{host}, {looks[policy.label].title}")
        alt = f"What {host} does over time under {policy.title}. Means: {', '.join(said)}."
        panels.append(picture(figure, f"host-time-{number}", alt))
    return panels


@styled
def by_placement(
    tables: Mapping[str, Mapping[str, Any]], policies: Sequence[str], looks: Mapping[str, Look]
) -> Picture:
    """Mean job completion time against placement, a curve a policy, with intervals.

    `tables` holds, by placement from skewed to uniform, the `policies` of its summary.json.
    """
    jct = metrics.headline(JOBS)
    found = [entry[label]["jobs"][jct.key] for entry in tables.values() for label in policies]
    length, unit = words.time_unit(max((ns for ns in found if ns is not None), default=1.0))
    figure, axes = new_figure()
    said = []
    places = np.arange(len(tables))
    for index, label in enumerate(policies):
        look = looks[label]
        jobs = [entry[label]["jobs"] for entry in tables.values()]
        values = np.array([np.nan if job[jct.key] is None else job[jct.key]
                           for job in jobs], dtype=float) / length  # fmt: skip
        at = places + 0.06 * (index - (len(policies) - 1) / 2)
        axes.plot(at, values, color=look.colour, linestyle=look.dash, marker=look.marker)
        for place, job in zip(at, jobs, strict=True):
            ends = words.known(job["interval_95"][jct.key])
            if ends is not None:
                axes.plot([place] * 2, np.array(ends) / length, color=look.colour, linewidth=1.4)
        said.append(f"{look.title} " + ", ".join(f"{value:.3g}" for value in values))
    axes.set_xticks(places, list(tables), rotation=30, ha="right")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"mean {jct.heading} ({unit})")
    axes.set_title(f"{jct.alone} against placement")
    alt = f"Mean {jct.heading} ({unit}) for {', '.join(tables)}: {'; '.join(said)}."
    return picture(figure, "placement", alt)


def _marker(axes: Any, x: float, y: float, look: Look) -> None:
    axes.plot(
        x, y, look.marker, color=look.colour, markersize=7, markeredgecolor=colour("ink"),
        markeredgewidth=1,
    )  # fmt: skip
