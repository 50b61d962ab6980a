"""A run as a trace that Perfetto and chrome://tracing show: who did what when, on one time axis.

JSON of the Trace Event Format. A process of the trace is a job, the flows of a host, the ports, or
the cluster; a thread of it is a track. Spans on one track lie beside or inside each other, never
across: what may overlap (transfers, flows) is spread over as many tracks as it takes. Times are
microseconds with three decimals, so no nanosecond is lost.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.folder import Job, Plan, SealedRun
from basics import units

Event = dict[str, Any]


@dataclass(frozen=True)
class Span:
    name: str
    start_ns: int
    end_ns: int
    category: str
    about: Mapping[str, Any] = field(default_factory=dict)


def trace(run: SealedRun, plan: Plan) -> str:
    """The text of a trace file."""
    document = {
        "traceEvents": list(events(run, plan)),
        "displayTimeUnit": "ns",
        "otherData": {
            "experiment": plan.name,
            "policy": run.label,
            "seed": run.seed,
            "engine": run.manifest["engine"],
            "verdict": run.fidelity["verdict"],
            "digest": run.manifest["digest"],
        },
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def events(run: SealedRun, plan: Plan) -> Iterator[Event]:
    """Every event, process by process."""
    processes: list[tuple[str, Iterable[tuple[str, Iterable[Span]]]]] = [
        *((f"job {job.name}", _job_tracks(run, job)) for job in plan.jobs),
        *((f"flows from {host}", tracks) for host, tracks in _flow_tracks(run, plan)),
        ("cluster", _cluster_tracks(run)),
    ]
    number = 0
    for number, (process, tracks) in enumerate(processes, 1):
        yield from _process(number, process, tracks)
    yield _named("process_name", number + 1, 0, "ports, Mbit/s by band")
    yield from _rates(run, number + 1)
    yield _named("process_name", number + 2, 0, "ports, drops so far by band")
    yield from _drops(run, number + 2)


def _process(
    number: int, process: str, tracks: Iterable[tuple[str, Iterable[Span]]]
) -> Iterator[Event]:
    yield _named("process_name", number, 0, process)
    yield {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}}
    for thread, (track, spans) in enumerate(tracks, 1):
        yield _named("thread_name", number, thread, track)
        yield {"ph": "M", "name": "thread_sort_index", "pid": number, "tid": thread,
               "args": {"sort_index": thread}}  # fmt: skip
        for span in spans:
            yield {
                "ph": "X",
                "name": span.name,
                "cat": span.category,
                "pid": number,
                "tid": thread,
                "ts": span.start_ns / 1000,
                "dur": (span.end_ns - span.start_ns) / 1000,
                "args": dict(span.about),
            }


def _named(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _job_tracks(run: SealedRun, job: Job) -> Iterator[tuple[str, list[Span]]]:
    """For each worker what it did (iterations, in them compute and waits), and what it sent."""
    iterations = _by_worker(run.table("iterations"), job)
    computes = _by_worker(run.table("computes"), job)
    transfers = _by_worker(run.table("transfers"), job)
    for worker in range(job.workers):
        host = job.hosts[worker] if worker < len(job.hosts) else ""
        name = f"worker {worker} {host}".rstrip()
        yield name, _worked(iterations.get(worker, []), computes.get(worker, []))
        sent = [_transfer(row) for row in transfers.get(worker, []) if _whole(row)]
        yield from _spread(f"{name} transfers", sent)


def _by_worker(table: pd.DataFrame, job: Job) -> dict[int, list[Any]]:
    mine = table[table["job"] == job.name]
    found: dict[int, list[Any]] = {}
    for row in _rows(mine.sort_values(["start_ns", "end_ns"], kind="stable")):
        found.setdefault(int(row.worker), []).append(row)
    return found


def _rows(table: pd.DataFrame) -> Iterator[Any]:
    """Its rows, a name a column; pandas' types of them say less than the schema does."""
    return iter(table.itertuples(index=False))


def _known(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _whole(row: Any) -> bool:
    """Whether it has begun and ended: what the run's end cut off has no end."""
    return bool(pd.notna(row.start_ns) and pd.notna(row.end_ns))


def _worked(iterations: list[Any], computes: list[Any]) -> list[Span]:
    """Each iteration, and inside of it compute and, between two computes, waiting."""
    found: list[Span] = []
    by_iteration: dict[int, list[Span]] = {}
    for row in computes:
        by_iteration.setdefault(int(row.iteration), []).append(
            Span(
                f"{row.phase} {row.layer}",
                int(row.start_ns),
                int(row.end_ns),
                "compute",
                {"layer": int(row.layer), "late_ns": int(row.late_ns)},
            )
        )
    for row in iterations:
        about = {"compute_ns": int(row.compute_ns), "wait_ns": int(row.wait_ns)}
        inside = by_iteration.pop(int(row.iteration), [])
        whole = Span(
            f"iteration {row.iteration}", int(row.start_ns), int(row.end_ns), "iteration", about
        )
        found += [whole, *_with_waits(whole, inside)]
    return found + [span for left in by_iteration.values() for span in left]  # cut off by the end


def _with_waits(whole: Span, inside: list[Span]) -> Iterator[Span]:
    if not inside:  # a stack that does not say when it computes: no wait can be placed
        return
    at = whole.start_ns
    for span in inside:
        if span.start_ns > at:
            yield Span("wait", at, span.start_ns, "wait")
        yield span
        at = max(at, span.end_ns)
    if whole.end_ns > at:
        yield Span("wait", at, whole.end_ns, "wait")


def _transfer(row: Any) -> Span:
    layers = f"layer {row.first_layer}" + (f" and {row.layers - 1} more" if row.layers > 1 else "")
    about = {
        "iteration": int(row.iteration),
        "bytes": int(row.bytes),
        "priority": int(row.priority),
        "ready_ns": int(row.ready_ns),
        "needed_ns": _known(row.needed_ns),
    }
    name = f"transfer {row.transfer}: {layers}"
    return Span(name, int(row.start_ns), int(row.end_ns), "transfer", about)


def _flow_tracks(run: SealedRun, plan: Plan) -> Iterator[tuple[str, list[tuple[str, list[Span]]]]]:
    """The flows that each host sends. One that was under way at the end lasts until then."""
    flows = run.table("flows")
    begun = flows[flows["start_ns"].notna()]
    for host, rows in begun.groupby("src", sort=False):
        spans = []
        for row in _rows(rows):
            done = bool(pd.notna(row.end_ns))
            start_ns = int(row.start_ns)
            end_ns = int(row.end_ns) if done else max(plan.duration_ns, start_ns)
            size = units.format_size(int(row.size_byte))
            about = {
                "flow": int(row.flow),
                "mix": row.mix,
                "to": row.dst,
                "size_byte": int(row.size_byte),
                "priority": int(row.priority),
                "finished": done,
            }
            spans.append(Span(f"{size} to {row.dst}", start_ns, end_ns, "flow", about))
        yield str(host), list(_spread(f"{host}", spans))


def _cluster_tracks(run: SealedRun) -> Iterator[tuple[str, list[Span]]]:
    """The tasks that each host of a cluster has, from when it is taken until it is free."""
    for host, rows in run.table("stretches").groupby("host", sort=False):
        spans = [
            Span(
                f"{row.job} task {row.task}",
                int(row.taken_ns),
                int(row.free_ns),
                "task",
                {"start_ns": _known(row.start_ns), "end_ns": _known(row.end_ns), "why": row.why},
            )
            for row in _rows(rows)
        ]
        yield from _spread(str(host), spans)


def _spread(name: str, spans: list[Span]) -> Iterator[tuple[str, list[Span]]]:
    """As few tracks as it takes for no two spans of one to overlap; the first that is free."""
    tracks: list[list[Span]] = []
    free: list[int] = []  # tracks whose last span is over, the lowest first
    busy: list[tuple[int, int]] = []  # (when it ends, track)
    for span in sorted(spans, key=lambda one: (one.start_ns, one.end_ns)):
        while busy and busy[0][0] <= span.start_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            tracks.append([])
            heapq.heappush(free, len(tracks) - 1)
        track = heapq.heappop(free)
        tracks[track].append(span)
        heapq.heappush(busy, (span.end_ns, track))
    for number, track_spans in enumerate(tracks, 1):
        yield (name if len(tracks) == 1 else f"{name} {number}"), track_spans


def _rates(run: SealedRun, process: int) -> Iterator[Event]:
    """What each port carried, by band: from one reading of its counters to the next."""
    for link, times, columns in _counters(run, "bytes"):
        lengths = np.diff(times)
        rates = {band: np.diff(sent) * 8e3 / lengths for band, sent in columns.items()}
        for at, time in enumerate(times[:-1]):
            shown = {band: float(rate[at]) for band, rate in rates.items()}
            yield _counter(link, process, int(time), shown)
        yield _counter(link, process, int(times[-1]), dict.fromkeys(rates, 0.0))


def _drops(run: SealedRun, process: int) -> Iterator[Event]:
    """Packets that a port has dropped by then; ports that never dropped one are left out."""
    for link, times, columns in _counters(run, "drops"):
        if any(lost[-1] for lost in columns.values()):
            for at, time in enumerate(times):
                shown = {band: int(lost[at]) for band, lost in columns.items()}
                yield _counter(link, process, int(time), shown)


def _counter(link: str, process: int, time_ns: int, values: Mapping[str, float]) -> Event:
    return {"ph": "C", "name": link, "pid": process, "tid": 0, "ts": time_ns / 1000,
            "args": dict(values)}  # fmt: skip


def _counters(
    run: SealedRun, column: str
) -> Iterator[tuple[str, np.typing.NDArray[Any], dict[str, np.typing.NDArray[Any]]]]:
    """(link, when its counters were read, what they said by band)."""
    for link, rows in run.table("links").groupby("link", sort=False):
        wide = rows.pivot_table(index="time_ns", columns="class", values=column).sort_index()
        if len(wide) > 1:
            filled = wide.ffill().fillna(0)
            yield (
                str(link),
                filled.index.to_numpy(),
                {str(band): filled[band].to_numpy() for band in filled.columns},
            )
