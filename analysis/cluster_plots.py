"""Pictures of a cluster: which job is on which host when, and how long jobs take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from analysis import cluster, words
from analysis.folder import Plan, Results, SealedRun
from analysis.look import Look, Picture, colour, new_figure, picture, styled
from analysis.metrics import Floats, quantile
from analysis.plots import cdf, log_ticks

MOST_HOSTS, MOST_BARS = 40, 8000  # of a chart; more cannot be told apart
POINTS, NAME_POINTS, LETTER = 72, 5.0, 0.6  # an inch; a name in a bar; its letters' mean width
COLOURS = 6  # in turns, so that a job differs from its neighbours


def pictures(results: Results, looks: Mapping[str, Look]) -> dict[str, list[Picture]]:
    """Nothing where there is no cluster."""
    if results.plan.cluster is None:
        return {"gantts": [], "completions": []}
    return {"gantts": gantts(results, looks), "completions": [completions(results, looks)]}


@styled
def completions(results: Results, looks: Mapping[str, Look]) -> Picture:
    """Share of the jobs that are done within a time. Unfinished ones count."""
    times = {
        policy.label: np.concatenate(
            [
                cluster.job_values(run, results.plan)["completion_ns"].to_numpy(dtype=float)
                for run in results.of(policy.label)
            ]
        )
        for policy in results.plan.policies
    }
    known = [values[~np.isnan(values)] for values in times.values()]
    longest = max((float(values.max()) for values in known if len(values)), default=1.0)
    length, unit = words.time_unit(longest)
    figure, axes = new_figure()
    medians = []
    for (label, values), finished in zip(times.items(), known, strict=True):
        ends, shares = cdf(values)
        look = looks[label]
        axes.step(ends / length, 100 * shares, where="post", color=look.colour, linestyle=look.dash)
        medians.append(f"{look.title} {words.duration(quantile(finished, 0.5))}")
    axes.set_xscale("log")
    log_ticks(axes)
    axes.set_ylim(0, 101)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
    axes.set_xlabel(f"completion time of jobs ({unit}, log axis)")
    axes.set_title("Jobs done within a time")
    alt = (
        f"Share of jobs that are done within a time, on a log axis. Medians: {', '.join(medians)}."
    )
    return picture(figure, "cluster-completions", alt)


@styled
def gantts(results: Results, looks: Mapping[str, Look]) -> list[Picture]:
    """A chart a policy, of its first seed, all over the same time."""
    runs = {policy.label: results.of(policy.label)[0] for policy in results.plan.policies}
    ends = [float(run.table("stretches")["free_ns"].max()) for run in runs.values()]
    end_ns = max((end for end in ends if not np.isnan(end)), default=1.0)
    drawn = [_gantt(run, results.plan, looks[label], end_ns) for label, run in runs.items()]
    some_nameless = any(chart.nameless for chart in drawn)
    return [
        chart.picture(f"cluster-gantt-{number}", with_legend=some_nameless)
        for number, chart in enumerate(drawn)
    ]


@dataclass(frozen=True)
class _Chart:
    figure: Figure
    alt: str
    caption: str
    jobs: list[str]
    nameless: bool  # there are few jobs, and of one the name stands nowhere

    def picture(self, slug: str, *, with_legend: bool) -> Picture:
        if with_legend and len(self.jobs) <= COLOURS:
            patches = [
                Patch(color=colour(f"policy-{at}"), label=job) for at, job in enumerate(self.jobs)
            ]
            more_inch = 0.2 * -(-len(patches) // 3)
            self.figure.set_figheight(self.figure.get_figheight() + more_inch)
            self.figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)
        return picture(self.figure, slug, self.alt, self.caption)


def _gantt(run: SealedRun, plan: Plan, look: Look, end_ns: float) -> _Chart:
    """A line a host; a bar a stretch, as high as its part of the host, from the bottom up."""
    assert plan.cluster is not None
    stretches = run.table("stretches")
    hosts = [f"h{host + 1}" for host in range(plan.cluster["hosts"])]
    here = stretches[stretches["host"].isin(hosts[:MOST_HOSTS])].sort_values(
        "taken_ns", kind="stable"
    )
    shown, later = here.iloc[:MOST_BARS], here.iloc[MOST_BARS:]
    length, unit = words.time_unit(end_ns)
    rows = min(len(hosts), MOST_HOSTS)
    figure, axes = new_figure(0.9 + 0.16 * rows)
    numbers = {job: at for at, job in enumerate(run.table("submissions")["job"])}
    ordered = shown.sort_values("taken_ns", kind="stable")
    bars, colours = _bars(ordered, numbers, {host: at for at, host in enumerate(hosts)}, length)
    axes.add_collection(PolyCollection(bars, facecolors=colours, linewidths=0))
    named = _name(axes, bars, ordered["job"].tolist(), end_ns / length, rows)
    axes.set_xlim(0, end_ns / length)
    axes.set_ylim(rows - 0.5, -0.5)
    step = max(1, rows // 10)
    axes.set_yticks(range(0, rows, step), hosts[:rows:step])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"time ({unit})")
    axes.set_title(look.title)
    if len(later):
        axes.axvline(later["taken_ns"].iloc[0] / length, color=colour("ink"), linestyle=":")
    left_out = _left_out(len(hosts) - rows, len(stretches) - len(here), later)
    alt = (
        f"Gantt chart of hosts under {look.title}, seed {run.seed}: {len(shown)} stretches of "
        f"tasks on {rows} hosts.{left_out}"
    )
    nameless = len(numbers) <= COLOURS and not named.issuperset(numbers)
    return _Chart(figure, alt, left_out.strip(), list(numbers), nameless)


def _left_out(hosts: int, there: int, later: pd.DataFrame) -> str:
    """So many hosts, with so many stretches, and what begins after the dotted line."""
    told = [f"{hosts} more hosts with {there} stretches"] if hosts else []
    if len(later):
        since = words.duration(later["taken_ns"].iloc[0])
        told.append(f"{len(later)} more stretches, from the dotted line on ({since})")
    return f" Not shown: {words.and_list(told)}." if told else ""


def _bars(
    stretches: pd.DataFrame, jobs: Mapping[str, int], rows: Mapping[str, int], length: float
) -> tuple[list[Floats], list[str]]:
    """Tasks that are on a host at once lie beside each other, each in the first free lane.

    Stretches come in the order in which they were taken.
    """
    found: list[tuple[float, float, int, int, str]] = []
    lanes: dict[str, list[float]] = {}
    names = (stretches[name].tolist() for name in ("job", "host", "taken_ns", "free_ns"))
    for job, host, taken_ns, free_ns in zip(*names, strict=True):
        own = lanes.setdefault(host, [])
        lane = next((lane for lane, until in enumerate(own) if until <= taken_ns), len(own))
        own[lane : lane + 1] = [free_ns]
        shade = colour(f"policy-{jobs[job] % COLOURS}")
        found.append((taken_ns / length, free_ns / length, rows[host], lane, shade))
    most = max((len(own) for own in lanes.values()), default=1)
    height = 0.84 / most
    corners = []
    for begin, end, row_, lane, _ in found:
        low = row_ + 0.42 - lane * height
        high = low - height
        corners.append(np.array([(begin, low), (end, low), (end, high), (begin, high)]))
    return corners, [shade for *_, shade in found]


def _name(axes: Any, bars: list[Floats], jobs: list[str], width: float, rows: int) -> set[str]:
    """Write a job's name into its bar, where it has room; which were written."""
    named = set()
    inches = axes.get_position()
    a_time = inches.width * axes.figure.get_figwidth() * POINTS / width
    a_row = inches.height * axes.figure.get_figheight() * POINTS / rows
    for bar, job in zip(bars, jobs, strict=True):
        (begin, low), (end, high) = bar[0], bar[2]
        wide, high_enough = (end - begin) * a_time, (low - high) * a_row > NAME_POINTS
        if high_enough and wide > LETTER * NAME_POINTS * (len(job) + 1):
            middle = ((begin + end) / 2, (low + high) / 2)
            named.add(job)
            axes.text(
                *middle, job, ha="center", va="center", size=NAME_POINTS, color=colour("shade")
            )
    return named


def said(summary: Mapping[str, Any]) -> str:
    """What became of the jobs, where some were not done."""
    parts = []
    for entry in summary["policies"].values():
        own = entry.get("cluster") or {}
        if own and own["finished"] < own["count"]:
            left = own["count"] - own["finished"]
            parts.append(f"{entry['title']}: {left} of {own['count']} jobs")
    return "; ".join(parts)
