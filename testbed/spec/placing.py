"""From the training entries of a file to jobs: a `count` written out, every task on a host.

Nothing after this knows of counts and placements.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationInfo

import topologies
from basics.hints import nearest
from basics.units import shown
from policies.cluster.placements import (
    PLACEMENTS,
    SERVERS_BY_RACK,
    Racks,
    around,
    firsts,
    left_by,
)
from testbed.spec.job_hosts import hosts_before_servers
from testbed.spec.job_values import MOST_SERVERS
from testbed.spec.jobs import TrainingJob
from testbed.spec.mistakes import At, Mistakes
from workloads.jobports import MOST_JOBS


def placed(entries: tuple[TrainingJob, ...], info: ValidationInfo) -> tuple[TrainingJob, ...]:
    """Every entry as the jobs that it stands for, each with the hosts of its servers and workers.

    All jobs that name the same placement are placed together, in the order of the file.
    """
    total = sum(entry.count or 1 for entry in entries)
    if total > MOST_JOBS:
        raise ValueError(f"found {total} jobs; TCP ports last for {MOST_JOBS}, each has its own")
    servers = sum((entry.count or 1) * entry.servers for entry in entries)
    if servers > MOST_SERVERS:
        raise ValueError(f"found {servers} servers of all jobs; {MOST_SERVERS} are the most")
    jobs = [job for index, entry in enumerate(entries) for job in counted(index, entry)]
    mistakes = Mistakes()
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            mistakes.add([job.entry, "name"], f"found {shown(job.name)} twice; names are unique")
        seen.add(job.name)
    if "topology" in info.data:  # else its own complaint comes first
        racks = info.data["topology"].graph.racks
        hosts = topologies.host_names(info.data["topology"].hosts)
        try:
            jobs = place_by_name(place_as_listed(entries, jobs, hosts), hosts)
            jobs = place_by_rack(jobs, racks)
            settle_all(jobs, racks, info.data.get("duration_ns"))
        except ValueError as error:
            mistakes.take(error)
    mistakes.refuse()
    return tuple(jobs)


def counted(index: int, entry: TrainingJob) -> Iterator[TrainingJob]:
    """The jobs that an entry stands for."""
    for number in range(entry.count or 1):
        update: dict[str, Any] = {
            "name": entry.name if entry.count is None else f"{entry.name}-{number + 1}",
            "count": None,
            "family": entry.family or (None if entry.count is None else entry.name),
            "start_ns": entry.start_ns + number * entry.stagger_ns,
            "stagger_ns": 0,
        }
        job = entry.model_copy(update=update)
        job._entry = index
        yield job


def settle_all(jobs: Sequence[TrainingJob], racks: Racks, duration_ns: int | None) -> None:
    """Give every worker its host; a mistake that an entry's jobs share is said once."""
    mistakes = Mistakes()
    wrong: set[int] = set()
    for job in jobs:
        entry = job.entry
        try:
            job.settle(racks, duration_ns)
        except At as error:
            if entry not in wrong:
                mistakes.take(error, entry)
                wrong.add(entry)
    mistakes.refuse()


def place_as_listed(
    entries: Sequence[TrainingJob], jobs: Sequence[TrainingJob], hosts: Sequence[str]
) -> list[TrainingJob]:
    """The same jobs, where entries list hosts each with its own."""
    mistakes = Mistakes()
    where: dict[int, Iterator[tuple[str, ...]]] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry.servers_on, tuple) and entry.has_servers:
            try:
                where[index] = iter(listed_hosts(entry, hosts))
            except At as error:
                mistakes.take(error, index)
    mistakes.refuse()
    return [
        job.model_copy(update={"servers_on": next(where[job.entry])}) if job.entry in where else job
        for job in jobs
    ]


def listed_hosts(entry: TrainingJob, hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """The hosts of each job's servers, as the file lists them."""
    listed = entry.servers_on
    for name in dict.fromkeys(listed):
        if name not in hosts:
            hint = partial(nearest, name, hosts)
            raise At(["servers_on"], f"found {shown(name)}, an unknown host", hint)
    jobs = entry.count or 1
    if len(listed) != jobs * entry.servers:
        raise At(
            ["servers_on"],
            f"found places for {len(listed)} servers; {jobs} job(s) with {entry.servers} each "
            f"have {jobs * entry.servers}",
        )
    made = [tuple(listed[at * entry.servers : (at + 1) * entry.servers]) for at in range(jobs)]
    for number, own in enumerate(made):
        if len(set(own)) < len(own):
            raise At(
                ["servers_on"],
                f"found two servers of job {number + 1} on one host; a job's servers must be on "
                "different ones",
            )
    return made


def place_by_name(jobs: Sequence[TrainingJob], hosts: Sequence[str]) -> list[TrainingJob]:
    """The same jobs, with hosts in the place of placements' names."""
    made = list(jobs)
    mistakes = Mistakes()
    for name in PLACEMENTS:
        group = [at for at, job in enumerate(jobs) if job.has_servers and job.servers_on == name]
        for at, first in zip(group, firsts(name, len(group), len(hosts)), strict=True):
            job = jobs[at]
            try:
                own = around(first, job.servers, hosts)
            except ValueError as error:
                mistakes.add([job.entry, "servers"], str(error))
            else:
                made[at] = job.model_copy(update={"servers_on": own})
    mistakes.refuse()
    return made


def place_by_rack(jobs: Sequence[TrainingJob], racks: Racks) -> list[TrainingJob]:
    """The same jobs, with hosts for those whose servers are placed by rack.

    They have what the workers leave, if the file says how many workers there are.
    """
    made = list(jobs)
    mistakes = Mistakes()
    for name, order in SERVERS_BY_RACK.items():
        first = 0
        for at, job in enumerate(jobs):
            if not job.has_servers or job.servers_on != name:
                continue
            left = order(left_by(hosts_before_servers(job, racks), racks))
            if job.servers > len(left):
                why = f"found {job.servers}, but the workers leave {len(left)} hosts"
                mistakes.add([job.entry, "servers"], why)
                continue
            made[at] = job.model_copy(update={"servers_on": around(first, job.servers, left)})
            first += job.servers
    mistakes.refuse()
    return made
