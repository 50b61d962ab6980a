"""The pictures of the report. Each is one small panel; the page lays panels out side by side or
one below the other, so that they are as readable on a phone as on a wide screen.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import link_use, metrics, window, words
from analysis.folder import Job, Plan, Results
from analysis.look import Look, Picture, class_colour, colour, new_figure, picture, styled
from analysis.metrics import FLOWS, SIZES, TRAINING, Floats
from analysis.stats import Ints

MOST_POINTS = 200  # of a curve or a cloud; more would only make the file bigger
NARROWEST = 0.05  # of the longest iteration: an axis of iterations shows at least as much
WIDE = 8.0  # times: jobs that are further apart have a log axis
ALL_STEPS = 0.7  # decades that hold two of 1, 2 and 5, wherever they begin
MOST_JOBS = 8  # with panels of their own; the others are in summary.json


@styled
def fct_cdfs(flows: Mapping[str, pd.DataFrame], looks: Mapping[str, Look]) -> list[Picture]:
    """One panel a size class. Unfinished flows count, so their curve ends below 100 %."""
    panels = []
    for name in SIZES:
        title = FLOWS.called(name).capitalize()
        columns = {
            label: window.of_class(table, name)["fct_ns"].to_numpy(dtype=float)
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
            times, shares = cdf(values)
            axes.step(
                times / length,
                100 * shares,
                where="post",
                color=look.colour,
                linestyle=look.dash,
                label=look.title,
            )
            median = metrics.quantile(values[~np.isnan(values)], 0.5)
            middle = np.searchsorted(shares, 0.5)
            if middle < len(times):
                axes.plot(
                    times[middle] / length, 50, look.marker, color=look.colour, label="median"
                )
            medians.append(f"{look.title} {words.duration(median)}")
        axes.set_xscale("log")
        log_ticks(axes)
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
def iteration_times(
    iterations: Mapping[str, Mapping[str, pd.DataFrame]],
    summary: Mapping[str, Any],
    plan: Plan,
    looks: Mapping[str, Look],
) -> list[Picture]:
    """One panel a job: every iteration as a dot, the mean with its interval above them.

    All panels have one axis, so that jobs can be compared by eye.
    """
    panels = []
    iteration = metrics.headline(TRAINING)
    by_job = {
        job: {
            label: table["duration_ns"].to_numpy(dtype=float)
            for label, table in iterations[job.name].items()
        }
        for job in plan.jobs[:MOST_JOBS]
    }
    shared = _shared_axis(by_job)
    for number, (job, durations) in enumerate(by_job.items()):
        if shared is None or not any(len(values) for values in durations.values()):
            continue
        length, unit = words.time_unit(shared.high)
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
            mean, ends = found[iteration.key], found["interval_95"][iteration.key]
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
        axes.set_yticks(
            range(len(durations)), [in_lines(looks[label].title) for label in durations]
        )
        axes.set_ylim(len(durations) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        shared.put_on(axes, length)
        axes.set_xlabel(f"{iteration.heading} ({unit}{', log axis' if shared.log else ''})")
        axes.set_title(job.name)
        alt = f"{iteration.alone} of {job.name}, mean and 95 % interval: {'; '.join(said)}."
        panels.append(picture(figure, f"iteration-{number}", alt))
    return panels


@dataclass(frozen=True)
class SharedAxis:
    """The ends of an axis that several panels have, in ns."""

    low: float
    high: float
    log: bool

    def put_on(self, axes: Any, length: float) -> None:
        if self.log:
            axes.set_xscale("log")
        axes.set_xlim(self.low / length, self.high / length)
        if self.log:
            log_ticks(axes)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _shared_axis(by_job: Mapping[Job, Mapping[str, Floats]]) -> SharedAxis | None:
    """From the shortest to the longest of all, compute alone included; none without iterations.

    Never so narrow that a difference of nothing fills a panel.
    """
    found = [
        np.append(values, job.compute_ns)
        for job, durations in by_job.items()
        for values in durations.values()
        if len(values)
    ]
    if not found:
        return None
    low, high = float(np.concatenate(found).min()), float(np.concatenate(found).max())
    if low > 0 and high > WIDE * low:
        return SharedAxis(low / 1.1, high * 1.1, log=True)
    room = max(0.05 * (high - low), (NARROWEST * high - (high - low)) / 2)
    return SharedAxis(max(0.0, low - room), high + room, log=False)


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
        edges, shares = link_use.use_over_time(run.table("links"), port, plan.rates_bps[port])
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
        means = link_use.link_use(run.table("links"), plan.window_ns, plan.rates_bps)[port]
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


def cdf(values: Floats) -> tuple[Floats, Floats]:
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


def log_ticks(axes: Any) -> None:
    """Of a logarithmic x axis: two numbers at least, however short it is."""
    low, high = axes.get_xlim()
    decades = np.log10(high / low) if low > 0 else 1.0
    steps = (1.0, 2.0, 5.0) if decades < 2 else (1.0,)
    narrow = decades < ALL_STEPS  # else the steps may have one number there, or none
    log = LogLocator(base=10, subs=steps, numticks=8)
    axes.xaxis.set_major_locator(MaxNLocator(4) if narrow else log)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def in_lines(name: str, most: int = 16) -> str:
    """A name beside an axis, whole: in several lines, where it is long."""
    return textwrap.fill(name, most)
