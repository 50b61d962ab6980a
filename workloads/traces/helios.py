"""SenseTime's Helios (cluster_log.csv): a gang of one GPU a task; one task if it has no GPU."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from basics.resources import GPU, THOUSANDTHS, amounts
from workloads.busy_job import BusyJob
from workloads.traces.format import TraceFormat
from workloads.traces.table import SECOND_NS, TraceRow, csv_rows, csv_text, whole_seconds

COLUMNS = (
    "job_id", "user", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time",
    "end_time", "duration", "queue",
)  # fmt: skip
NEEDED = ("job_id", "gpu_num", "cpu_num", "submit_time", "duration")
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


def read(path: Path) -> list[BusyJob]:
    """Jobs that ran for no time at all are left out."""
    return [job(row) for row in csv_rows(path, NEEDED) if row.seconds("duration")]


def job(row: TraceRow) -> BusyJob:
    tasks = max(row.amount("gpu_num"), 1)
    cpu = row.amount("cpu_num", THOUSANDTHS) // tasks
    gpu = THOUSANDTHS if row.amount("gpu_num") else 0
    submitted_ns, duration_ns = moment(row, "submit_time"), row.seconds("duration")
    demand = amounts({"gpu": gpu, "cpu": cpu})
    return BusyJob(f"job-{row.text('job_id')}", submitted_ns, duration_ns, tasks, demand)


def moment(row: TraceRow, column: str) -> int:
    try:
        read_ = datetime.fromisoformat(row.text(column)).replace(tzinfo=UTC)
    except ValueError:
        found = row.text(column)
        raise row.wrong(column, f"found '{found}'; a time is like 2020-04-01 00:16:38") from None
    return round((read_ - EPOCH).total_seconds()) * SECOND_NS


def write(jobs: Sequence[BusyJob]) -> str:
    rows = []
    for number, one in enumerate(jobs):
        duration = whole_seconds(one.duration_ns)
        start = EPOCH + timedelta(seconds=whole_seconds(one.submitted_ns))
        end = start + timedelta(seconds=duration)
        gpus = one.tasks if one.demand[GPU] else 0
        cpus = one.tasks * one.demand[1] // THOUSANDTHS
        times = [f"{when:%Y-%m-%d %H:%M:%S}" for when in (start, start, end)]
        rows.append((number, "u1", gpus, cpus, 1, "COMPLETED", *times, duration, 0))
    return csv_text(COLUMNS, rows)


FORMAT = TraceFormat("helios", "S-Lab-System-Group/HeliosData, cluster_log.csv", read, write)
