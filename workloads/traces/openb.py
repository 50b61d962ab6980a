"""Alibaba's openb (cluster-trace-gpu-v2023): a pod is one task, which may need a part of a GPU.

A host's GPUs are one number here: 0.6 of one and 0.4 of another count as one that is free.
"""

from collections.abc import Sequence
from pathlib import Path

from basics.resources import THOUSANDTHS, amounts
from workloads.busy_job import BusyJob
from workloads.traces.format import TraceFormat
from workloads.traces.table import TraceRow, csv_rows, csv_text, whole_seconds

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
NEEDED = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time",
    "scheduled_time",
)  # fmt: skip
MIB = 2**20


def read(path: Path) -> list[BusyJob]:
    """Pods that were never scheduled, or not for a second, are left out."""
    jobs = [pod(row) for row in csv_rows(path, NEEDED) if row.text("scheduled_time")]
    return [job for job in jobs if job.duration_ns != 0]


def pod(row: TraceRow) -> BusyJob:
    created_ns, scheduled_ns = row.seconds("creation_time"), row.seconds("scheduled_time")
    duration_ns = None
    if row.text("deletion_time"):
        duration_ns = row.seconds("deletion_time") - scheduled_ns
        if duration_ns < 0:
            found = row.text("deletion_time")
            raise row.wrong("deletion_time", f"found {found}, which is before scheduled_time")
    demand = amounts(
        {
            "gpu": row.amount("num_gpu") * row.amount("gpu_milli"),
            "cpu": row.amount("cpu_milli"),
            "memory": row.amount("memory_mib", MIB),
        }
    )
    return BusyJob(row.text("name"), created_ns, duration_ns, 1, demand)


def write(jobs: Sequence[BusyJob]) -> str:
    rows = []
    for number, job in enumerate(jobs):
        gpu, cpu, memory, *_ = (job.tasks * need for need in job.demand)
        whole, part = (1, gpu) if gpu < THOUSANDTHS else (gpu // THOUSANDTHS, THOUSANDTHS)
        start = whole_seconds(job.submitted_ns)
        end = "" if job.duration_ns is None else start + whole_seconds(job.duration_ns)
        name = f"openb-pod-{number:04d}"
        asks = (cpu, memory // MIB, whole if gpu else 0, part if gpu else 0)
        rows.append((name, *asks, "", "LS", "Succeeded", start, end, start))
    return csv_text(COLUMNS, rows)


FORMAT = TraceFormat("openb", "alibaba/clusterdata, openb_pod_list_default.csv", read, write)
