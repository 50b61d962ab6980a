"""The pictures of the report. Each is one small panel; the page lays panels out side by side or
one below the other, so that they are as readable on a phone as on a wide screen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import metrics, words
from analysis.folder import Plan, Results
from analysis.look import Look, Picture, class_colour, colour, new_figure, picture, styled
from analysis.metrics import Floats
from analysis.stats import Ints

MOST_POINTS = 200  # of a curve or a cloud; more would only make the file bigger
MOST_JOBS = 8  # with panels of their own; the others are in summary.json
CLASS_TITLES = {"small": "Small flows", "medium": "Medium flows", "large": "Large flows"}
BAR_STATISTICS = {"mean": "Mean", "p99": "99th percentile"}


@styled
def fct_cdfs(flows: Mapping[str, pd.DataFrame], looks: Mapping[str, Look]) -> list[Picture]:
    """One panel a size class. Unfinished flows count, so their curve ends below 100 %."""
    panels = []
    for name, title in CLASS_TITLES.items():
        columns = {
            label: metrics.of_class(table, name)["fct_ns"].to_numpy(dtype=float)
            for label, table in flows.items()
        }
        finished = [values[~np.isnan(values)] for values in columns.values()]
        if not any(len(values) for values in finished):
            continue
        length, unit = words.time_unit(_middle(np.concatenate(finished)))
        figure, axes = new_figure()
        medians = []
        for label, values in columns.items():
            look = looks[label]
            times, shares = _cdf(values)
            axes.step(
                times / length,
                100 * shares,
                where="post",
                color=look.colour,
                linestyle=look.dash,
            )
            median = metrics.quantile(values[~np.isnan(values)], 0.5)
            middle = np.searchsorted(shares, 0.5)
            if middle < len(times):
                axes.plot(times[middle] / length, 50, look.marker, color=look.colour)
            medians.append(f"{look.title} {words.duration(median)}")
        axes.set_xscale("log")
        _log_ticks(axes)
        axes.set_ylim(0, 101)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        axes.set_xlabel(f"flow completion time ({unit}, log axis)")
        axes.set_title(title)
        alt = (
            f"{title}: share of flows that finished within a time, on a log axis. "
            f"Medians: {', '.join(medians)}."
        )
        panels.append(picture(figure, f"cdf-{name}", alt))
    return panels


@styled
def change_bars(summary: Mapping[str, Any], plan: Plan, looks: Mapping[str, Look]) -> list[Picture]:
    """Change against the first policy: flows by class and iterations by job, with intervals."""
    panels = []
    for statistic, statistic_title in BAR_STATISTICS.items():
        rows = [(f"{name} flows", f"flows.{name}.fct_{statistic}") for name in metrics.CLASSES[:-1]]
        rows += [
            (
                _short(job.name) if len(plan.jobs) > 1 else "iterations",
                f"training.{job.name}.iteration_{statistic}",
            )
            for job in plan.jobs[:MOST_JOBS]
        ]
        rows = [
            row
            for row in rows
            if any(_change(summary, other.label, row[1]) is not None for other in plan.others)
        ]
        if not rows:
            continue
        panels.append(_bars(summary, plan, looks, rows, statistic, statistic_title))
    return panels


def _bars(
    summary: Mapping[str, Any],
    plan: Plan,
    looks: Mapping[str, Look],
    rows: Sequence[tuple[str, str]],
    statistic: str,
    title: str,
) -> Picture:
    others = plan.others
    thickness = 0.78 / len(others)
    figure, axes = new_figure(0.95 + len(rows) * (0.30 + 0.14 * len(others)))
    said = []
    for index, other in enumerate(others):
        look = looks[other.label]
        for row, (name, metric) in enumerate(rows):
            entry = _change(summary, other.label, metric)
            if entry is None:
                continue
            at = row + (index - (len(others) - 1) / 2) * thickness
            value = 100 * entry["change"]
            axes.barh(at, value, thickness * 0.86, color=look.colour, alpha=0.55, linewidth=0)
            ends = words.known(entry["interval_95"])
            if ends is not None:
                axes.plot([100 * ends[0], 100 * ends[1]], [at, at], color=colour("ink"), lw=1.4)
            axes.plot(value, at, look.marker, color=look.colour, markersize=5)
            said.append(
                f"{look.title}, {name}: {words.percent(entry['change'])} "
                f"({words.percent_interval(entry['interval_95'])})"
            )
    axes.axvline(0, color=colour("ink"), linewidth=1)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -1), max(high, 1))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(_signed_percent))
    axes.set_xlabel(f"change against {plan.first.title} (left is faster)")
    axes.set_title(title)
    return picture(
        figure,
        f"change-{statistic}",
        f"{title}, change with 95 % interval. " + "; ".join(said) + ".",
    )


@styled
def iteration_times(
    iterations: Mapping[str, Mapping[str, pd.DataFrame]],
    summary: Mapping[str, Any],
    plan: Plan,
    looks: Mapping[str, Look],
) -> list[Picture]:
    """One panel a job: every iteration as a dot, the mean with its interval above them."""
    panels = []
    for number, job in enumerate(plan.jobs[:MOST_JOBS]):
        tables = iterations[job.name]
        durations = {
            label: table["duration_ns"].to_numpy(dtype=float) for label, table in tables.items()
        }
        if not any(len(values) for values in durations.values()):
            continue
        longest = max(float(values.max()) for values in durations.values() if len(values))
        length, unit = words.time_unit(longest)
        figure, axes = new_figure(1.0 + 0.42 * len(durations))
        said = []
        for row, (label, values) in enumerate(durations.items()):
            look = looks[label]
            shown = _thinned(np.sort(values))
            scatter = 0.24 * np.random.default_rng(row).uniform(-1, 1, size=len(shown))
            axes.plot(
                shown / length, row + scatter, ".", color=look.colour, alpha=0.45, markersize=4
            )
            found = summary["policies"][label]["training"][job.name]
            mean, ends = found["iteration_mean_ns"], found["interval_95"]["iteration_mean_ns"]
            if mean is None:
                continue
            if words.known(ends):
                axes.plot(np.array(ends) / length, [row, row], color=colour("ink"), linewidth=2)
            axes.plot(
                mean / length,
                row,
                look.marker,
                color=look.colour,
                markersize=8,
                markeredgecolor=colour("ink"),
                markeredgewidth=1,
            )
            said.append(f"{look.title} {words.duration(mean)} ({words.duration_interval(ends)})")
        axes.axvline(job.compute_ns / length, color=colour("muted"), linestyle=":", linewidth=1.4)
        axes.set_yticks(range(len(durations)), [_short(looks[label].title) for label in durations])
        axes.set_ylim(len(durations) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"iteration time ({unit})")
        axes.set_title(job.name)
        alt = f"Iteration time of {job.name}, mean and 95 % interval: {'; '.join(said)}."
        panels.append(picture(figure, f"iteration-{number}", alt))
    return panels


def busiest_port(results: Results, summary: Mapping[str, Any]) -> str | None:
    """The switch port that the first policy used most: where the queue is."""
    used = summary["policies"][results.plan.first.label]["links"]["by_link"]
    # A switch has several neighbours; a host of these topologies has one.
    leaving = Counter(link.partition("->")[0] for link in used)
    of_switches = [link for link in used if leaving[link.partition("->")[0]] > 1]
    candidates = of_switches or list(used)
    return max(candidates, key=lambda link: used[link]["utilisation"] or 0.0, default=None)


@styled
def utilisation(results: Results, port: str, looks: Mapping[str, Look]) -> list[Picture]:
    """One panel a policy: what the port carried over time, by queue class, first seed."""
    plan = results.plan
    panels = []
    for number, policy in enumerate(plan.policies):
        run = results.of(policy.label)[0]
        edges, shares = metrics.use_over_time(run.table("links"), port, plan.rates_bps[port])
        if not shares:
            continue
        figure, axes = new_figure(2.5)
        seconds = edges / 1e9
        floor = np.zeros(len(edges) - 1)
        order = [band for band in reversed(policy.bands) if band in shares]
        order += [name for name in shares if name not in order]
        for name in order:
            top = floor + 100 * shares[name]
            axes.stairs(
                top, seconds, baseline=floor, fill=True, color=class_colour(name), linewidth=0
            )
            floor = top
        for begin, end in ((0, plan.window_ns[0]), (plan.window_ns[1], plan.duration_ns)):
            axes.axvspan(begin / 1e9, end / 1e9, color=colour("shade"), zorder=-5, linewidth=0)
        for edge in plan.window_ns:
            axes.axvline(edge / 1e9, color=colour("muted"), linestyle=":", linewidth=1)
        axes.set_xlim(0, max(plan.duration_ns / 1e9, float(seconds[-1])))
        axes.set_ylim(0, max(102.0, float(floor.max()) * 1.02))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        axes.set_xlabel("time (s)")
        axes.set_title(policy.title)
        means = metrics.link_use(run.table("links"), plan.window_ns, plan.rates_bps)[port]
        said = ", ".join(
            f"{name} {words.percent(share, signed=False)}" for name, share in means.by_class.items()
        )
        alt = (
            f"Utilisation of port {port} over time under {policy.title}. "
            f"Mean over the measured window by class: {said}."
        )
        panels.append(picture(figure, f"use-{number}", alt, _carried(run.manifest)))
    return panels


def _carried(manifest: Mapping[str, Any]) -> str:
    bands: dict[str, list[str]] = {}
    for who, band in (manifest.get("bands") or {}).items():
        bands.setdefault(band, []).append(who)
    return "; ".join(f"{band}: {words.and_list(names)}" for band, names in bands.items())


def _change(summary: Mapping[str, Any], label: str, metric: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = summary["policies"][label]["change"].get(metric)
    return found if found is not None and found["change"] is not None else None


def _cdf(values: Floats) -> tuple[Floats, Floats]:
    """(times, share of ALL flows finished by then), thinned to what a curve needs."""
    finished = np.sort(values[~np.isnan(values)])
    shares = np.arange(1, len(finished) + 1) / max(len(values), 1)
    keep = _thin_index(len(finished))
    return finished[keep], shares[keep]


def _middle(values: Floats) -> float:
    """The middle of a log axis: its unit suits both ends best."""
    return float(np.sqrt(values.min() * values.max()))


def _thinned(values: Floats) -> Floats:
    return values[_thin_index(len(values))]


def _thin_index(count: int) -> Ints:
    if count <= MOST_POINTS:
        return np.arange(count, dtype=np.int64)
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.int64))


def _log_ticks(axes: Any) -> None:
    low, high = axes.get_xlim()
    decades = np.log10(high / low) if low > 0 else 1.0
    steps = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _signed_percent(value: float, _: int) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+g} %".replace("-", words.MINUS)


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
