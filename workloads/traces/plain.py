"""Our own format: a row a job, and columns that say their unit; only the first two are needed.

An empty duration_s is a job that runs until the end. gang is 1 (all tasks together, as if left out)
or 0.
"""

from collections.abc import Sequence
from pathlib import Path

from basics.resources import NAMES, THOUSANDTHS
from workloads.busy_job import BusyJob
from workloads.traces.format import TraceFormat
from workloads.traces.table import SECOND_NS, TraceRow, csv_rows, csv_text

NEEDED = ("submitted_s", "duration_s")
MB = 10**6
UNITS = {
    "gpu": THOUSANDTHS, "cpu": THOUSANDTHS, "memory_mb": MB, "disk_mb": MB, "network_mbps": MB
}  # fmt: skip
COLUMNS = ("job", *NEEDED, "tasks", "gang", *UNITS, "deadline_s")
assert len(UNITS) == len(NAMES)


def read(path: Path) -> list[BusyJob]:
    return [job(row) for row in csv_rows(path, NEEDED)]


def job(row: TraceRow) -> BusyJob:
    deadline_ns = row.seconds("deadline_s") if row.text("deadline_s") else None
    submitted_ns = row.seconds("submitted_s")
    if deadline_ns is not None and deadline_ns <= submitted_ns:
        found = row.text("deadline_s")
        raise row.wrong("deadline_s", f"found {found}, which is not after submitted_s")
    gang = row.text("gang") or "1"
    if gang not in ("0", "1"):
        raise row.wrong("gang", f"found '{gang}'; it must be 1 or 0")
    duration_ns = row.seconds("duration_s") if row.text("duration_s") else None
    if duration_ns == 0:
        raise row.wrong("duration_s", "found 0; it must be above zero")
    return BusyJob(
        row.text("job") or f"job-{row.number - 1}",
        submitted_ns,
        duration_ns,
        row.count("tasks") if row.text("tasks") else 1,
        tuple(row.amount(column, unit, default=0) for column, unit in UNITS.items()),
        gang == "1",
        deadline_ns,
    )


def write(jobs: Sequence[BusyJob]) -> str:
    rows = []
    for one in jobs:
        times = (one.submitted_ns, one.duration_ns, one.deadline_ns)
        submitted, duration, deadline = ("" if ns is None else ns / SECOND_NS for ns in times)
        needs = [need / unit for need, unit in zip(one.demand, UNITS.values(), strict=True)]
        rows.append((one.name, submitted, duration, one.tasks, int(one.gang), *needs, deadline))
    return csv_text(COLUMNS, rows)


FORMAT = TraceFormat("plain", "Giveway's own, docs/cluster.md", read, write)
