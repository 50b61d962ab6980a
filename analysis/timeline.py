"""One iteration, worker by worker: when it computed, when it sent, when it waited.

The picture that shows a policy's price: transfers that take longer push the next forward pass
back, and the gap between two pieces of compute is the wait.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import words
from analysis.folder import Job, Results, SealedRun
from analysis.look import Look, Picture, colour, new_figure, picture, styled

MOST_WORKERS = 8
MOST_PARTS = 300  # of a worker's iteration that are told apart; a picture has not more room
Spans = list[tuple[float, float]]  # (begin, length)
Steps = list[tuple[float, float]]  # (time, level from then on)


@styled
def timelines(results: Results, looks: Mapping[str, Look]) -> tuple[list[Picture], str]:
    """One panel a policy, all on one time scale, and a sentence that says what they show."""
    plan = results.plan
    for job in plan.jobs:
        chosen = {
            policy.label: _typical_iteration(results.of(policy.label)[0], job, plan.window_ns)
            for policy in plan.policies
        }
        found = {label: number for label, number in chosen.items() if number is not None}
        if found:
            break
    else:
        return [], ""
    first_seed = {label: results.of(label)[0] for label in found}
    edges = {label: _edges(first_seed[label], job, number) for label, number in found.items()}
    longest = max(end - begin for begin, end in edges.values())
    length, unit = words.time_unit(longest)
    workers = min(job.workers, MOST_WORKERS)
    flights = {label: _flights(first_seed[label], job, edges[label], workers) for label in found}
    both = [lane for by_worker in flights.values() for lane in by_worker]
    most = (max(_most(flight) for flight, _ in both), max(_most(held) for _, held in both))
    panels = []
    for index, (label, number) in enumerate(found.items()):
        begin, _ = edges[label]
        figure, axes = new_figure(0.85 + 0.5 * workers)
        waits = []
        for worker in range(workers):
            rows = _rows(first_seed[label].table("iterations"), job, worker, number)
            for row in rows.itertuples():
                own = (float(row.start_ns), float(row.end_ns))  # type: ignore[arg-type]
                _draw_worker(axes, first_seed[label], job, worker, own, begin, length)
                _draw_flight(axes, flights[label][worker], worker, begin, length, most)
                waits.append(float(row.wait_ns))  # type: ignore[arg-type]
        axes.set_xlim(0, longest / length)
        axes.set_ylim(workers - 0.4, -0.6)
        axes.set_yticks(range(workers), [_host(job, worker) for worker in range(workers)])
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"time in the iteration ({unit})")
        axes.set_title(looks[label].title)
        alt = (
            f"Timeline of iteration {number} of {job.name} under {looks[label].title}, "
            f"{workers} workers: compute, transfers and waits. The iteration took "
            f"{words.duration(edges[label][1] - begin)}; a worker waited "
            f"{words.duration(float(np.mean(waits)))} of it on average and had at most "
            f"{words.size(max(_most(flight) for flight, _ in flights[label]))} under way and "
            f"{words.size(max(_most(held) for _, held in flights[label]))} held back."
        )
        panels.append(picture(figure, f"timeline-{index}", alt))
    seed = plan.seeds[0]
    note = f"Job {job.name}, seed {seed}: the iteration of each policy nearest to its median length"
    if job.workers > workers:
        note += f", the first {workers} of {job.workers} workers"
    if any(most):
        note += (
            f". At their highest the areas are {words.size(most[0])} under way and "
            f"{words.size(most[1])} held back"
        )
    return panels, note + "."


def _draw_worker(
    axes: Any,
    run: SealedRun,
    job: Job,
    worker: int,
    own: tuple[float, float],
    origin: float,
    length: float,
) -> None:
    """Compute in the upper lane over a bar of wait, transfers in the thin lane below it.

    Below that are the two areas of `_draw_flight`.

    A part is drawn from when the one before it was back, so that neighbours can be told apart.
    """

    def bars(spans: Spans, top: float, height: float, name: str) -> None:
        scaled = [((begin - origin) / length, span / length) for begin, span in spans]
        axes.broken_barh(scaled, (worker + top, height), facecolors=colour(name), linewidth=0)

    shortest = 0.002 * (own[1] - own[0])
    computes = run.table("computes")
    mine = computes[(computes["job"] == job.name) & (computes["worker"] == worker)]
    bars([(own[0], own[1] - own[0])], -0.38, 0.36, "wait")
    for phase in ("forward", "backward"):
        bars(_spans(mine[mine["phase"] == phase], own, shortest), -0.38, 0.36, phase)
    transfers = run.table("transfers")
    sent = transfers[(transfers["job"] == job.name) & (transfers["worker"] == worker)]
    parts = sent[(sent["end_ns"] > own[0]) & (sent["start_ns"] < own[1])].sort_values("end_ns")
    if len(parts) > MOST_PARTS:
        bars(_spans(parts, own, 0.0), 0.02, 0.12, "transfer")
        return
    alone = parts.assign(
        start_ns=np.maximum(parts["start_ns"], parts["end_ns"].shift(fill_value=0))
    )
    for shade, name in enumerate(("transfer", "part")):
        bars(_spans(alone.iloc[shade::2], own, 0.0), 0.02, 0.12, name)


def _flights(
    run: SealedRun, job: Job, edges: tuple[float, float], workers: int
) -> list[tuple[Steps, Steps]]:
    """Worker by worker: bytes begun and not back yet, and those that are ready and held back."""
    table = run.table("transfers")
    found = []
    for worker in range(workers):
        sent = table[(table["job"] == job.name) & (table["worker"] == worker)]
        under_way = _between(sent, "start_ns", "end_ns", edges)
        found.append((under_way, _between(sent, "ready_ns", "start_ns", edges)))
    return found


def _most(steps: Steps) -> float:
    return max((byte for _, byte in steps), default=0.0)


def _between(sent: pd.DataFrame, since: str, until: str, within: tuple[float, float]) -> Steps:
    """The bytes of transfers that are past the one moment and not yet at the other, as steps."""
    near = sent[(sent[until] > within[0]) & (sent[since] < within[1])]
    times = np.concatenate([near[since], near[until]]).astype(float).clip(*within)
    order = np.argsort(times, kind="stable")
    levels = np.cumsum(np.concatenate([near["bytes"], -near["bytes"]])[order])
    last = np.append(np.diff(times[order]) > 0, True)[: len(order)]  # of several at one instant
    steps = list(zip(times[order][last].tolist(), levels[last].tolist(), strict=True))
    return [*steps[:: max(1, len(steps) // MOST_PARTS)], *steps[-1:]]


def _draw_flight(
    axes: Any,
    flight: tuple[Steps, Steps],
    worker: int,
    origin: float,
    length: float,
    most: tuple[float, float],
) -> None:
    """Bytes under way, and below them those held back: each has one scale for all panels."""
    height = 0.17
    lanes = zip(flight, most, (worker + 0.35, worker + 0.56), ("flight", "queued"), strict=True)
    for steps, most_byte, bottom, name in lanes:
        if steps and most_byte:
            times = [(time - origin) / length for time, _ in steps]
            tops = [bottom - height * byte / most_byte for _, byte in steps]
            axes.fill_between(times, tops, bottom, step="post", facecolor=colour(name), linewidth=0)


def _spans(rows: pd.DataFrame, within: tuple[float, float], gap: float) -> Spans:
    """Spans of the rows inside an interval; those closer than the gap become one."""
    begins = np.clip(rows["start_ns"].to_numpy(dtype=float), *within)
    ends = np.clip(rows["end_ns"].to_numpy(dtype=float), *within)
    joined: list[list[float]] = []
    for begin, end in sorted(zip(begins, ends, strict=True)):
        if not end > begin:
            continue
        if joined and begin - joined[-1][1] < gap:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([begin, end])
    return [(begin, end - begin) for begin, end in joined]


def _typical_iteration(run: SealedRun, job: Job, window_ns: tuple[int, int]) -> int | None:
    """The iteration of median length among those in the window that have compute records."""
    table = run.table("iterations")
    inside = table[
        (table["job"] == job.name)
        & (table["start_ns"] >= window_ns[0])
        & (table["end_ns"] <= window_ns[1])
    ]
    computes = run.table("computes")
    recorded = set(computes.loc[computes["job"] == job.name, "iteration"])
    lengths = (
        (inside["end_ns"] - inside["start_ns"]).groupby(inside["iteration"]).mean().sort_values()
    )
    known = [int(number) for number in lengths.index if number in recorded]
    return known[(len(known) - 1) // 2] if known else None


def _rows(table: pd.DataFrame, job: Job, worker: int, iteration: int) -> pd.DataFrame:
    return table[
        (table["job"] == job.name) & (table["worker"] == worker) & (table["iteration"] == iteration)
    ]


def _edges(run: SealedRun, job: Job, iteration: int) -> tuple[float, float]:
    table = run.table("iterations")
    chosen = table[(table["job"] == job.name) & (table["iteration"] == iteration)]
    return float(chosen["start_ns"].min()), float(chosen["end_ns"].max())


def _host(job: Job, worker: int) -> str:
    return job.hosts[worker] if worker < len(job.hosts) else str(worker)
