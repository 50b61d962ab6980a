"""The trace of 60 jobs that comes with Tiresias: a gang of one GPU a task for each job."""

from collections.abc import Sequence
from pathlib import Path

from basics.resources import THOUSANDTHS, amounts
from workloads.busy_job import BusyJob
from workloads.traces.format import TraceFormat
from workloads.traces.table import csv_rows, csv_text, whole_seconds

COLUMNS = (
    "job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"
)  # fmt: skip
ONE_GPU = amounts({"gpu": THOUSANDTHS})


def read(path: Path) -> list[BusyJob]:
    return [
        BusyJob(
            f"job-{row.text('job_id')}",
            row.seconds("submit_time"),
            row.seconds("duration"),
            row.count("num_gpu"),
            ONE_GPU,
        )
        for row in csv_rows(path, ("job_id", "num_gpu", "submit_time", "duration"))
    ]


def write(jobs: Sequence[BusyJob]) -> str:
    rows = []
    before = 0
    for number, job in enumerate(jobs):
        submitted, duration = whole_seconds(job.submitted_ns), whole_seconds(job.duration_ns)
        rows.append((number, job.tasks, submitted, duration, "none", duration, submitted - before))
        before = submitted
    return csv_text(COLUMNS, rows)


FORMAT = TraceFormat("tiresias", "SymbioticLab/Tiresias, simulator/60_job.csv", read, write)
