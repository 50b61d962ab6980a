"""The cluster of an experiment file: what every host has, and which jobs come."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from basics import resources, units
from basics.errors import BadInput
from basics.resources import NETWORK, RESOURCES, Amounts
from basics.units import shown
from testbed.spec import spans
from testbed.spec.mistakes import At, collected
from testbed.spec.spans import Span, span
from testbed.spec.values import Flag, SafeName, Spec, Time, above_zero, integer, one_of, up_to
from workloads import traces
from workloads.busy_job import MOST_TASKS, BusyJob
from workloads.job_draws import PHILLY_NEEDS, jobs_of, largest

MOST_JOB_ENTRIES = 100
MOST_DRAWN = 1_000_000
YEAR_NS = 365 * 24 * 3600 * 10**9
LONGEST_NS = 70 * YEAR_NS  # of the tasks of a job, added up: a quarter of what 64 bits can count
OWN_FORMAT = "plain"
DRAWN_KEYS = ("arrivals", "like", "tasks", "gang", "demand", "duration")


def _amount(name: str) -> BeforeValidator:
    read = RESOURCES[resources.NAMES.index(name)].read
    return BeforeValidator(read)


def _amounts(name: str, example: str) -> BeforeValidator:
    return BeforeValidator(span(RESOURCES[resources.NAMES.index(name)].read, example))


class HostSpec(Spec):
    """What every host has; its network is its cable."""

    what: ClassVar[str] = "what a host has"

    gpu: Annotated[int, _amount("gpu")] = 0
    cpu: Annotated[int, _amount("cpu")] = 0
    memory: Annotated[int, _amount("memory")] = 0
    disk: Annotated[int, _amount("disk")] = 0

    def plain(self) -> dict[str, Any]:
        return {r.name: r.write(getattr(self, r.name)) for r in RESOURCES if r.name in self._names}

    @property
    def _names(self) -> set[str]:
        return {name for name in type(self).model_fields if getattr(self, name)}


class DemandSpec(Spec):
    """What a task of a drawn job needs."""

    what: ClassVar[str] = "a demand"

    gpu: Annotated[Span, _amounts("gpu", "1 to 4")] = (0, 0)
    cpu: Annotated[Span, _amounts("cpu", "1 to 4")] = (0, 0)
    memory: Annotated[Span, _amounts("memory", "1 GB to 8 GB")] = (0, 0)
    disk: Annotated[Span, _amounts("disk", "1 GB to 8 GB")] = (0, 0)
    network: Annotated[Span, _amounts("network", "10 Mbit/s to 1 Gbit/s")] = (0, 0)

    def plain(self) -> dict[str, Any]:
        by_name = {r.name: (getattr(self, r.name), r.write) for r in RESOURCES}
        return {name: spans.written(*found) for name, found in by_name.items() if found[0][1]}


def _arrivals(value: object) -> tuple[str, int]:
    match = (
        re.fullmatch(r"\s*(uniform|poisson) over (.+)", value) if isinstance(value, str) else None
    )
    if match is None:
        raise ValueError(
            f"found {shown(value)}; write arrivals like uniform over 3000 s or poisson over 10 min"
        )
    return match[1], above_zero(units.time_ns)(match[2])


def _deadline(value: object) -> float:
    match = (
        re.fullmatch(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?) x alone\s*", value)
        if isinstance(value, str)
        else None
    )
    if match is None or not float(match[1]):
        raise ValueError(f"found {shown(value)}; write a deadline like 2 x alone")
    return float(match[1])


def _trace_path(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, str) and value and value.isprintable():
        base = info.context.get("folder", Path()) if info.context else Path()
        return Path(base, value).absolute()
    raise ValueError(f"found {shown(value)}; it must be the path of a trace")


class ClusterJobs(Spec):
    """Jobs of a trace, or so many drawn: when they come, their tasks, what these need, how long."""

    what: ClassVar[str] = "an entry of jobs"

    name: SafeName
    kind: Annotated[str, BeforeValidator(one_of("kind of job", "busy", "training"))] = "busy"
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
    deadline: Annotated[float, BeforeValidator(_deadline)] | None = None

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
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
            found |= {"arrivals": f"{kind} over {units.format_time(over_ns)}", "gang": self.gang}
            if self.demand.plain():
                found["demand"] = self.demand.plain()
        if self.like is not None:
            found["like"] = self.like
        if self.duration_ns is not None:
            duration = spans.written(self.duration_ns, units.format_time)
            found |= {"tasks": spans.written(self.tasks, int), "duration": duration}
        if self.deadline is not None:
            found["deadline"] = f"{self.deadline:.12g} x alone"
        return found


class CheckpointSpec(Spec):
    """What a suspension and a resumption cost; a host is held meanwhile."""

    what: ClassVar[str] = "a checkpoint"

    suspend_ns: Time = Field(alias="suspend", default=0)
    resume_ns: Time = Field(alias="resume", default=0)

    def plain(self) -> dict[str, Any]:
        times = {"suspend": self.suspend_ns, "resume": self.resume_ns}
        return {name: units.format_time(ns) for name, ns in times.items()}


class ClusterSpec(Spec):
    what: ClassVar[str] = "a cluster"

    host: HostSpec
    jobs: Annotated[tuple[ClusterJobs, ...], BeforeValidator(up_to(MOST_JOB_ENTRIES))]
    checkpoint: CheckpointSpec = CheckpointSpec.model_construct()

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
        return self

    def capacity(self, rate_bps: int) -> Amounts:
        """Of every host; its network is the rate of its cable."""
        own = self.host
        return (own.gpu, own.cpu, own.memory, own.disk, rate_bps)

    def drawn(self, rate_bps: int, hosts: int, seed: int) -> list[BusyJob]:
        return jobs_of(self.jobs, self.capacity(rate_bps), hosts, seed)

    def plain(self) -> dict[str, Any]:
        return {
            "host": self.host.plain(),
            "jobs": [entry.plain() for entry in self.jobs],
            "checkpoint": self.checkpoint.plain(),
        }


def fits_its_hosts(cluster: ClusterSpec | None, info: ValidationInfo) -> ClusterSpec | None:
    """Whether every job can be run by the hosts of the topology above."""
    if cluster is not None and "topology" in info.data:
        topology = info.data["topology"]
        collected(_unfit(cluster, cluster.capacity(topology.rate_bps), topology.hosts))
    return cluster


def _unfit(cluster: ClusterSpec, capacity: Amounts, hosts: int) -> Iterator[At]:
    total = 0
    for index, entry in enumerate(cluster.jobs):
        if entry.trace is None:
            jobs: Sequence[BusyJob] = [largest(entry)]
            total += (entry.count or 0) * jobs[0].tasks
        else:
            try:
                jobs = traces.read(entry.trace, entry.format, entry.count)
            except BadInput as error:
                yield At(["jobs", index, "trace"], str(error))
                continue
            total += sum(job.tasks for job in jobs)
        why = next((why for job in jobs if (why := misfit(job, capacity, hosts))), None)
        if why is not None:
            key = "demand" if entry.trace is None else "trace"
            yield At(["jobs", index, key], why)
    if total > MOST_TASKS:
        yield At(["jobs"], f"found up to {total} tasks in all; {MOST_TASKS} are the most")


def misfit(job: BusyJob, capacity: Amounts, hosts: int) -> str | None:
    """Why a job could never run on these hosts; None if it could."""
    for resource, have, need in zip(RESOURCES, capacity, job.demand, strict=True):
        if need > have:
            whose = "its cable has" if resource is RESOURCES[NETWORK] else "a host has"
            asked, there = (resources.said(resource.name, amount) for amount in (need, have))
            return f"a task of {job.name} needs {asked}, and {whose} {there}; it fits no host"
    if job.tasks * (job.duration_ns or 0) > LONGEST_NS:
        years = LONGEST_NS // YEAR_NS
        return f"the tasks of {job.name} take more than {years} years in all; give it less to do"
    if job.gang and job.places(capacity) * hosts < job.tasks:
        most = job.places(capacity) * hosts
        return (
            f"{job.name} has {job.tasks} tasks that run together, and {hosts} hosts have room for "
            f"{most} of them; give it fewer tasks, or gang: false"
        )
    return None


Cluster = Annotated[ClusterSpec, AfterValidator(fits_its_hosts)]
