"""The cluster of an experiment file: what every host has, and which jobs come."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from basics import resources, units
from basics.errors import BadInput
from basics.resources import NETWORK, RESOURCES, Amounts
from basics.units import shown
from testbed.spec import spans
from testbed.spec.cluster_parts import (
    CheckpointSpec,
    DemandSpec,
    FailureSpec,
    HostSpec,
    impossible,
    times,
)
from testbed.spec.cluster_training import (
    OWN_KEYS,
    TRAINING,
    TrainingKeys,
    counted,
    training_misfits,
)
from testbed.spec.mistakes import At, collected
from testbed.spec.spans import Span, span
from testbed.spec.values import Flag, SafeName, Spec, above_zero, integer, listed, one_of, up_to
from topologies import host_names
from workloads import traces
from workloads.busy_job import MOST_TASKS, BusyJob
from workloads.job_draws import PHILLY_NEEDS, jobs_of, largest, replayed
from workloads.training_work import STATE_MODELS

MOST_JOB_ENTRIES = 100
MOST_DRAWN = 1_000_000
YEAR_NS = 365 * 24 * 3600 * 10**9
LONGEST_NS = 70 * YEAR_NS  # of the tasks of a job, added up: a quarter of what 64 bits can count
OWN_FORMAT = "plain"
DRAWN_KEYS = ("arrivals", "like", "tasks", "gang", "demand", "duration")


def _arrivals(value: object) -> tuple[str, int]:
    match = (
        re.fullmatch(r"\s*(?:(uniform|poisson) over|(at)) (.+)", value)
        if isinstance(value, str)
        else None
    )
    if match is None:
        raise ValueError(
            f"found {shown(value)}; write arrivals like uniform over 3000 s, poisson over 10 min "
            "or at 5 s"
        )
    read = units.time_ns if match[2] else above_zero(units.time_ns)
    return match[1] or match[2], read(match[3])


def _trace_path(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, str) and value and value.isprintable():
        base = info.context.get("folder", Path()) if info.context else Path()
        return Path(base, value).absolute()
    raise ValueError(f"found {shown(value)}; it must be the path of a trace")


class ClusterJobs(TrainingKeys):
    """Jobs of a trace, or so many drawn: when they come, their tasks, what these need, how long."""

    what: ClassVar[str] = "an entry of jobs"

    name: SafeName
    kind: Annotated[str, BeforeValidator(one_of("kind of job", "busy", TRAINING))] = "busy"
    trace: Annotated[Path, BeforeValidator(_trace_path)] | None = None
    format: Annotated[str, BeforeValidator(one_of("format", *traces.formats()))] = OWN_FORMAT
    count: Annotated[int, BeforeValidator(integer(1, MOST_DRAWN))] | None = None
    arrivals: Annotated[tuple[str, int], BeforeValidator(_arrivals)] | None = None
    like: Annotated[str, BeforeValidator(one_of("kind of jobs", "philly"))] | None = None
    tasks: Annotated[Span, BeforeValidator(span(integer(1, 100_000), "1 to 4"))] = (1, 1)
    gang: Flag = True
    demand: DemandSpec = DemandSpec.model_construct()
    duration_ns: (
        Annotated[Span, BeforeValidator(span(above_zero(units.time_ns), "1 min to 5 min"))] | None
    ) = Field(alias="duration", default=None)
    deadline: (
        Annotated[float, BeforeValidator(times("alone", "a deadline like 2 x alone"))] | None
    ) = None

    @classmethod
    def normal(cls, data: Any) -> Any:
        return counted(data)

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        if data.get("kind") == TRAINING:
            yield from training_misfits(data)
            return
        for key in [key for key in OWN_KEYS if key in data]:
            yield At([key], "found in busy jobs; it is for kind: training")
        if "trace" in data:
            for key in [key for key in DRAWN_KEYS if key in data][:1]:
                yield At([key], "found beside trace; jobs are either drawn or read from a file")
            return
        if "format" in data:
            yield At(["format"], "found without trace; it says how a file is written")
        needed = {"count": 40, "arrivals": "uniform over 3000 s"}
        if "like" not in data:
            needed |= {"duration": "1 min to 5 min", "demand": "{gpu: 1}"}
        for key, example in needed.items():
            if key not in data:
                yield At([key], f"missing; drawn jobs need it, like {example}")
        for key in [key for key in ("tasks", "duration") if key in data and "like" in data]:
            yield At([key], "found beside like, which says it already; leave one of them out")

    @property
    def needs(self) -> dict[str, Span]:
        """Of a task, by resource."""
        found = {name: getattr(self.demand, name) for name in resources.NAMES}
        return {**found, **PHILLY_NEEDS} if self.like and not found["gpu"][1] else found

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.trace is not None:
            found |= {"trace": str(self.trace), "format": self.format}
        if self.count is not None:
            found["count"] = self.count
        if self.arrivals is not None:
            kind, over_ns = self.arrivals
            over = "at" if kind == "at" else f"{kind} over"
            found["arrivals"] = f"{over} {units.format_time(over_ns)}"
            if not self.trains:
                found["gang"] = self.gang
            if self.demand.plain():
                found["demand"] = self.demand.plain()
        if self.like is not None:
            found["like"] = self.like
        if self.duration_ns is not None:
            duration = spans.written(self.duration_ns, units.format_time)
            found |= {"tasks": spans.written(self.tasks, int), "duration": duration}
        if self.trains:
            found |= self._plain_training()
        if self.deadline is not None:
            found["deadline"] = f"{self.deadline:.12g} x alone"
        return found


class ClusterSpec(Spec):
    what: ClassVar[str] = "a cluster"

    host: HostSpec
    jobs: Annotated[tuple[ClusterJobs, ...], BeforeValidator(up_to(MOST_JOB_ENTRIES))]
    checkpoint: CheckpointSpec = CheckpointSpec.model_construct()
    failures: Annotated[tuple[FailureSpec, ...], BeforeValidator(listed)] = ()

    @model_validator(mode="after")
    def _jobs_are_told_apart(self) -> Self:
        if not self.jobs:
            raise At(["jobs"], "found none; give at least one entry")
        names = [entry.name for entry in self.jobs]
        collected(
            At(["jobs", index, "name"], f"found {shown(name)} twice; every entry has its own name")
            for index, name in enumerate(names)
            if name in names[:index]
        )
        collected(self._misfits_of_its_checkpoint())
        return self

    def _misfits_of_its_checkpoint(self) -> Iterator[At]:
        sized = self.checkpoint.size is not None
        if sized and not self.trains:
            why = "found, but all jobs are busy, and what they leave is not sent; leave it out"
            yield At(["checkpoint", "size"], why)
        elif sized and all(one.is_real for one in self.jobs if one.trains):
            why = "found, but all jobs that train are torch's, which send what state they have"
            yield At(["checkpoint", "size"], f"{why}; leave it out")
        if self.checkpoint.band is not None and not sized and not self.sends_states:
            why = "found without size; a checkpoint without one sends nothing"
            yield At(["checkpoint", "band"], why)

    @property
    def trains(self) -> bool:
        """Whether some of its jobs train, so that something is sent."""
        return any(entry.trains for entry in self.jobs)

    @property
    def sends_states(self) -> bool:
        """Whether some of its jobs are real training, whose checkpoints are real."""
        return any(entry.is_real for entry in self.jobs)

    def capacity(self, rate_bps: int) -> Amounts:
        """Of every host; its network is the rate of its cable."""
        own = self.host
        return (own.gpu, own.cpu, own.memory, own.disk, rate_bps)

    def drawn(self, rate_bps: int, hosts: int, seed: int) -> list[BusyJob]:
        jobs = jobs_of(self.jobs, self.capacity(rate_bps), hosts, seed)
        return [self._checkpointed(job) for job in jobs] if self.trains else jobs

    def _checkpointed(self, job: BusyJob) -> BusyJob:
        if job.work is None:
            return job
        real = self.jobs[job.work.entry].is_real
        model_byte = job.work.model_byte
        byte = STATE_MODELS * model_byte if real else self.checkpoint.byte(model_byte)
        return replace(job, work=replace(job.work, checkpoint_byte=byte))

    def plain(self) -> dict[str, Any]:
        found = {
            "host": self.host.plain(),
            "jobs": [entry.plain() for entry in self.jobs],
            "checkpoint": self.checkpoint.plain(),
        }
        failures = [one.plain() for one in self.failures]
        return {**found, "failures": failures} if failures else found


def fits_its_hosts(cluster: ClusterSpec | None, info: ValidationInfo) -> ClusterSpec | None:
    """Whether every job can be run by the hosts of the topology above."""
    if cluster is not None and "topology" in info.data:
        topology, names = info.data["topology"], host_names(info.data["topology"].hosts)
        collected(
            chain(
                _unfit(cluster, cluster.capacity(topology.rate_bps), topology.hosts),
                impossible(cluster.failures, names, info.data.get("duration_ns")),
            )
        )
    return cluster


def _unfit(cluster: ClusterSpec, capacity: Amounts, hosts: int) -> Iterator[At]:
    total = 0
    for index, entry in enumerate(cluster.jobs):
        if entry.trains and (wrong := list(_unfit_to_train(index, entry))):
            yield from wrong
            continue
        if entry.trace is None:
            jobs: Sequence[BusyJob] = [largest(entry, capacity[NETWORK])]
            total += (entry.count or 0) * jobs[0].tasks
        else:
            try:
                jobs = replayed(entry)
            except BadInput as error:
                yield At(["jobs", index, "trace"], str(error))
                continue
            total += sum(job.tasks for job in jobs)
        why = next((why for job in jobs if (why := misfit(job, capacity, hosts))), None)
        if why is not None:
            key, what = why
            yield At(["jobs", index, key if entry.trace is None else "trace"], what)
    if total > MOST_TASKS:
        yield At(["jobs"], f"found up to {total} tasks in all; {MOST_TASKS} are the most")


def _unfit_to_train(index: int, entry: ClusterJobs) -> Iterator[At]:
    assert entry.workers is not None
    low, _ = entry.workers
    job = entry.job
    if job.has_servers and job.servers > low:
        yield At(
            ["jobs", index, "servers"],
            f"found {job.servers}, and jobs of {low} workers; each server is beside a worker",
        )
    if not job.has_servers and low < 2:
        yield At(["jobs", index, "workers"], f"found {low}; aggregation: ring needs 2 or more")


def misfit(job: BusyJob, capacity: Amounts, hosts: int) -> tuple[str, str] | None:
    """The key and why a job could never run on these hosts; None if it could."""
    for resource, have, need in zip(RESOURCES, capacity, job.demand, strict=True):
        if need > have:
            whose = "its cable has" if resource is RESOURCES[NETWORK] else "a host has"
            asked, there = (resources.said(resource.name, amount) for amount in (need, have))
            why = f"a task of {job.name} needs {asked}, and {whose} {there}; it fits no host"
            return "demand", why
    if job.tasks * (job.duration_ns or 0) > LONGEST_NS:
        years = LONGEST_NS // YEAR_NS
        why = f"the tasks of {job.name} take more than {years} years in all; give it less to do"
        return "demand", why
    if job.gang and job.places(capacity) * hosts < job.tasks:
        most = job.places(capacity) * hosts
        room = f"and {hosts} hosts have room for {most} of them; give it fewer"
        if job.work is not None:
            return "workers", f"{job.name} has up to {job.tasks} workers, {room}"
        why = f"{job.name} has {job.tasks} tasks that run together, {room} tasks, or gang: false"
        return "demand", why
    return None


Cluster = Annotated[ClusterSpec, AfterValidator(fits_its_hosts)]
