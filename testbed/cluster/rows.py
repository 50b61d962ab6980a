"""What became of a cluster's jobs and tasks, as rows of the tables."""

from collections.abc import Iterator
from typing import Any

from basics.resources import GPU, Amounts
from testbed.cluster.master import Master
from testbed.run_folder import UNDONE, Row
from workloads.busy_job import BusyJob


def tables(master: Master, capacity: Amounts, hosts: tuple[str, ...]) -> dict[str, list[Row]]:
    return {
        "stretches": list(stretch_rows(master, hosts)),
        "packs": list(pack_rows(master)),
        "submissions": list(submission_rows(master, capacity, len(hosts))),
        UNDONE: [list(one) for one in master.undone],
    }


def stretch_rows(master: Master, hosts: tuple[str, ...]) -> Iterator[list[Any]]:
    first = master.ledger.first_task.tolist()
    for stretch in master.stretches:
        name = master.ledger.jobs[stretch.job].name
        times = (stretch.taken_ns, stretch.start_ns, stretch.end_ns, stretch.free_ns)
        for task, host in zip(stretch.tasks.tolist(), stretch.hosts.tolist(), strict=True):
            yield [name, task - first[stretch.job], hosts[host], *times, stretch.why]


def pack_rows(master: Master) -> Iterator[list[Any]]:
    jobs = master.ledger.jobs
    for job, beside, start_ns, end_ns in master.ledger.packs.past:
        yield [jobs[job].name, jobs[beside].name, start_ns, end_ns]


def submission_rows(master: Master, capacity: Amounts, hosts: int) -> Iterator[list[Any]]:
    started: dict[int, int] = {}
    ended: dict[int, int] = {}
    done: dict[int, int] = {}
    for stretch in master.stretches:
        started.setdefault(stretch.job, stretch.start_ns)
        if stretch.why == "finished":
            done[stretch.job] = done.get(stretch.job, 0) + len(stretch.tasks)
            ended[stretch.job] = max(ended.get(stretch.job, 0), stretch.end_ns)
    for number, job in enumerate(master.ledger.jobs):
        finished = done.get(number) == job.tasks
        yield [
            job.name, job.submitted_ns, job.tasks, job.gang, job.demand[GPU], job.duration_ns,
            job.alone_ns(capacity, hosts), job.share(capacity, hosts), job.deadline_ns,
            started.get(number), ended[number] if finished else None,
            _status(master, number, job, finished=finished),
        ]  # fmt: skip


def _status(master: Master, number: int, job: BusyJob, *, finished: bool) -> str:
    if finished:
        return "finished"
    if number in master.rejected:
        return "rejected"
    return "waiting" if master.ledger.waiting[number] == job.tasks else "stopped"
