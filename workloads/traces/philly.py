"""Microsoft's Philly (cluster_job_log, JSON): a gang of one GPU a task.

A job ran from its first attempt's start to its last one's end, on as many GPUs as its largest
attempt had. Jobs that never got a GPU are left out.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from basics.errors import BadInput
from basics.resources import THOUSANDTHS, amounts
from workloads.busy_job import BusyJob
from workloads.traces.format import TraceFormat
from workloads.traces.helios import EPOCH
from workloads.traces.table import SECOND_NS, TraceRow, content, whole_seconds

ONE_GPU = amounts({"gpu": THOUSANDTHS})


def read(path: Path) -> list[BusyJob]:
    try:
        entries = json.loads(content(path))
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    if not isinstance(entries, list):
        raise BadInput(f"{path}: not a list of jobs")
    found = [job(TraceRow(path, number, {}), entry) for number, entry in enumerate(entries, 1)]
    return [one for one in found if one is not None]


def job(row: TraceRow, entry: Any) -> BusyJob | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("attempts"), list):
        raise row.wrong("attempts", "missing; a job has a list of them")
    attempts = [one for one in entry["attempts"] if isinstance(one, dict) and one.get("start_time")]
    gpus = max((_gpus(row, one) for one in attempts), default=0)
    if not gpus:
        return None
    submitted_ns = _moment(row, entry, "submitted_time")
    start_ns = _moment(row, attempts[0], "start_time")
    duration_ns = None
    if attempts[-1].get("end_time"):
        duration_ns = _moment(row, attempts[-1], "end_time") - start_ns
        if duration_ns < 0:
            raise row.wrong("end_time", f"found {attempts[-1]['end_time']}, before start_time")
    name = str(entry.get("jobid", row.number))
    return None if duration_ns == 0 else BusyJob(name, submitted_ns, duration_ns, gpus, ONE_GPU)


def _gpus(row: TraceRow, attempt: Mapping[str, Any]) -> int:
    try:
        return sum(len(host["gpus"]) for host in attempt["detail"])
    except (KeyError, TypeError):
        raise row.wrong("detail", "missing; an attempt lists its hosts and their gpus") from None


def _moment(row: TraceRow, entry: Mapping[str, Any], key: str) -> int:
    try:
        when = datetime.strptime(str(entry.get(key)), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        found = entry.get(key)
        raise row.wrong(key, f"found {found!r}; a time is like 2017-10-03 01:32:58") from None
    return round((when - EPOCH).total_seconds()) * SECOND_NS


def write(jobs: Sequence[BusyJob]) -> str:
    entries = []
    for number, one in enumerate(jobs):
        start = EPOCH + timedelta(seconds=whole_seconds(one.submitted_ns))
        end = (
            None
            if one.duration_ns is None
            else start + timedelta(seconds=whole_seconds(one.duration_ns))
        )
        detail = [{"ip": "m1", "gpus": [f"gpu{gpu}" for gpu in range(one.tasks)]}]
        attempt = {
            "start_time": f"{start:%Y-%m-%d %H:%M:%S}",
            "end_time": end and f"{end:%Y-%m-%d %H:%M:%S}",
            "detail": detail,
        }
        entries.append(
            {
                "status": "Pass",
                "vc": "vc1",
                "jobid": f"application_{number}",
                "attempts": [attempt],
                "submitted_time": f"{start:%Y-%m-%d %H:%M:%S}",
                "user": "u1",
            }
        )
    return json.dumps(entries, indent=1) + "\n"


FORMAT = TraceFormat("philly", "msr-fiddle/philly-traces, cluster_job_log", read, write)
