"""The training jobs of an experiment file: what each computes and sends, and where it runs.

An entry with `count: 21` is 21 jobs. `placed` turns entries into jobs and gives every job's servers
their hosts, so that nothing after this knows of counts and placements.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

import topologies
from policies.placements import PLACEMENTS, place
from testbed import units
from testbed.specfile import At, nearest
from testbed.specparts import (
    Flag,
    SafeName,
    SomeSize,
    SomeTime,
    Spec,
    Time,
    integer,
    known,
    one_of,
)
from testbed.units import shown
from workloads import profiles
from workloads.jobports import MOST_JOBS
from workloads.parameter_server import NUMBER_BYTE

RING, PARAMETER_SERVER = "ring", "parameter-server"
MOST_STEPS = 2**31 - 1
# What a key of the other aggregation would mean here.
ONLY_SERVERS = "found beside aggregation: ring; it is for parameter-server jobs"


def _workers(value: object) -> str | int | tuple[str, ...]:
    if value == "all":
        return "all"
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f"found {shown(value)}; it must be all, a number, or host names like [h1, h2]")


def _servers_on(value: object) -> str | tuple[str, ...]:
    """A placement's name, or hosts: [h1 x16, h2 x5] -> h1 sixteen times, then h2 five times."""
    if isinstance(value, str) and value in PLACEMENTS:
        return value
    if not isinstance(value, list) or not value:
        names = ", ".join(PLACEMENTS)
        raise ValueError(
            f"found {shown(value)}; it must be hosts like [h1 x16, h2 x5], or one of {names}"
        )
    hosts: list[str] = []
    for index, entry in enumerate(value):
        found = re.fullmatch(r"(\S+)(?: x([0-9]{1,6}))?", entry) if isinstance(entry, str) else None
        if found is None or found[2] == "0" * len(found[2] or "x"):
            raise At([index], f"found {shown(entry)}; it must be a host like h1, or h1 x16")
        hosts += [found[1]] * min(int(found[2] or 1), MOST_JOBS + 1)
    return tuple(hosts)


class TrainingJob(Spec):
    what: ClassVar[str] = "a training job"

    name: SafeName
    profile: Annotated[str, BeforeValidator(known("profile", lambda: list(profiles.available())))]
    model_byte: SomeSize = Field(alias="model")
    aggregation: Annotated[str, BeforeValidator(one_of("aggregation", RING, PARAMETER_SERVER))] = (
        RING
    )
    workers: Annotated[Literal["all"] | int | tuple[str, ...], BeforeValidator(_workers)] = "all"
    iteration_ns: SomeTime = Field(alias="iteration")
    fusion_byte: SomeSize = Field(alias="fusion", default=64_000_000)
    order: Annotated[str, BeforeValidator(one_of("order", "fifo", "layer"))] = "fifo"
    barrier: Flag = True
    backend: Annotated[str, BeforeValidator(one_of("backend", "native", "torch", "horovod"))] = (
        "native"
    )
    check: Flag = False  # test mode: real numbers are summed, and the sums checked
    count: Annotated[int, BeforeValidator(integer(1, MOST_JOBS))] | None = None
    family: SafeName | None = None  # whom reports count it to; a count's jobs are one by themselves
    start_ns: Time = Field(alias="start", default=0)
    stagger_ns: Time = Field(alias="stagger", default=0)  # of a count: each starts later by this
    steps: Annotated[int, BeforeValidator(integer(1, MOST_STEPS))] | None = None
    servers: Annotated[int, BeforeValidator(integer(1, MOST_JOBS))] = 1
    servers_on: Annotated[str | tuple[str, ...], BeforeValidator(_servers_on)] = "spread"
    synchronisation: Annotated[str, BeforeValidator(one_of("synchronisation", "sync", "async"))] = (
        "sync"
    )
    stale: Annotated[int, BeforeValidator(integer(0, MOST_STEPS))] = 0
    _host_names: tuple[str, ...] = PrivateAttr(())
    _entry: int = PrivateAttr(0)

    @classmethod
    def normal(cls, data: Any) -> Any:
        """A job without a model size or an iteration time takes its profile's."""
        name = data.get("profile") if isinstance(data, dict) else None
        if not isinstance(name, str) or name not in profiles.available():
            return data
        profile = profiles.load(name)
        return {
            "model": units.format_size(profile.nominal_model_byte),
            "iteration": units.format_time(profile.nominal_iteration_ns),
            **data,
        }

    @model_validator(mode="after")
    def _fits_its_aggregation(self) -> Self:
        given = self.model_fields_set
        if self.stagger_ns and self.count is None:
            raise At(["stagger"], "found without count; one job has start alone")
        if self.has_servers and self.backend != "native":
            raise At(
                ["backend"], f"found {self.backend}; a parameter-server job is native: leave it out"
            )
        if self.backend != "native" and (self.start_ns or self.stagger_ns or self.steps):
            key = "steps" if self.steps else "start" if self.start_ns else "stagger"
            raise At([key], f"found beside backend: {self.backend}; it is for the native backend")
        if self.aggregation == RING:
            for key in ("servers", "servers_on", "synchronisation", "stale"):
                if key in given:
                    raise At([key], ONLY_SERVERS)
            return self
        if self.order != "fifo" or not self.barrier:
            key = "barrier" if self.order == "fifo" else "order"
            raise At(
                [key],
                "found in a parameter-server job, which pushes gradients as they become ready and "
                "waits as synchronisation and stale say: leave it out",
            )
        if self.stale and self.synchronisation == "async":
            raise At(["stale"], "found beside synchronisation: async, which waits for nobody")
        if self.servers * NUMBER_BYTE > self.scaled_profile.total_byte:
            raise At(
                ["servers"],
                f"found {self.servers}; a model of {units.format_size(self.model_byte)} does not "
                "have that many numbers",
            )
        return self

    @property
    def has_servers(self) -> bool:
        return self.aggregation == PARAMETER_SERVER

    @property
    def server_names(self) -> tuple[str, ...]:
        """Where the servers run, shard by shard; none in a ring."""
        if not self.has_servers:
            return ()
        assert isinstance(self.servers_on, tuple), "a job of an experiment has been placed"
        return self.servers_on

    @property
    def host_names(self) -> tuple[str, ...]:
        """Where the workers run, rank by rank."""
        return self._host_names

    @property
    def staleness(self) -> int | None:
        """How far a worker may be ahead of the slowest; None: as far as it gets."""
        return None if self.synchronisation == "async" else self.stale

    @property
    def entry(self) -> int:
        """Which entry of the file this job comes from."""
        return self._entry

    @property
    def scaled_profile(self) -> profiles.Profile:
        """The layers as this job computes and sends them."""
        return profiles.load(self.profile).scaled(self.model_byte, self.iteration_ns)

    def settle(self, hosts: tuple[str, ...], duration_ns: int) -> None:
        """Give every worker its host. Called once, by the experiment that owns this job."""
        if self.start_ns >= duration_ns:
            raise At(
                ["start"],
                f"found {units.format_time(self.start_ns)} for {self.name}; it must be before the "
                f"end, {units.format_time(duration_ns)}",
            )
        try:
            self._host_names = self._found_hosts(hosts)
        except ValueError as error:
            raise At(["workers"], str(error)) from None
        self._entry = 0  # only complaints need it, and a resolved file has other entries

    def _found_hosts(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(self.workers, tuple):
            for name in self.workers:
                if name not in hosts:
                    raise ValueError(f"found {shown(name)}, an unknown host{nearest(name, hosts)}")
            if len(set(self.workers)) < len(self.workers):
                raise ValueError("found a host twice; every worker needs a host of its own")
            found = self.workers
        else:
            # A worker beside its own server would not use the network.
            free = tuple(name for name in hosts if name not in self.server_names)
            count = len(free) if self.workers == "all" else self.workers
            if count > len(free):
                beside = " without a server of this job" if self.has_servers else ""
                raise ValueError(
                    f"found {shown(count)} workers, but there are only {len(free)} hosts{beside}"
                )
            found = free[: max(0, count)]
        least, what = (1, "a parameter-server job") if self.has_servers else (2, "a ring")
        if len(found) < least:
            raise ValueError(f"found {len(found)} workers; {what} needs {least} or more")
        return found

    def plain(self) -> dict[str, Any]:
        workers = list(self.workers) if isinstance(self.workers, tuple) else self.workers
        plain: dict[str, Any] = {
            "name": self.name,
            "profile": self.profile,
            "model": units.format_size(self.model_byte),
            "aggregation": self.aggregation,
            "workers": workers,
            "iteration": units.format_time(self.iteration_ns),
            "fusion": units.format_size(self.fusion_byte),
            "order": self.order,
            "barrier": self.barrier,
            "backend": self.backend,
            "check": self.check,
            "start": units.format_time(self.start_ns),
        }
        if self.family is not None:
            plain["family"] = self.family
        if self.steps is not None:
            plain["steps"] = self.steps
        if self.has_servers:
            plain |= {
                "servers": self.servers,
                "servers_on": list(self.server_names),
                "synchronisation": self.synchronisation,
                "stale": self.stale,
            }
        return plain


def placed(entries: tuple[TrainingJob, ...], info: ValidationInfo) -> tuple[TrainingJob, ...]:
    """Every entry as the jobs that it stands for, each with its servers' hosts.

    All jobs that name the same placement are placed together, in the order of the file.
    """
    if "topology" not in info.data:  # its own complaint comes first
        return entries
    hosts = topologies.host_names(info.data["topology"].hosts)
    total = sum(entry.count or 1 for entry in entries)
    if total > MOST_JOBS:
        raise ValueError(f"found {total} jobs; TCP ports last for {MOST_JOBS}, each has its own")
    jobs: list[TrainingJob] = []
    for index, entry in enumerate(entries):
        where = listed_hosts(index, entry, hosts) if isinstance(entry.servers_on, tuple) else None
        for number in range(entry.count or 1):
            update: dict[str, Any] = {
                "name": entry.name if entry.count is None else f"{entry.name}-{number + 1}",
                "count": None,
                "family": entry.family or (None if entry.count is None else entry.name),
                "start_ns": entry.start_ns + number * entry.stagger_ns,
                "stagger_ns": 0,
            }
            if where is not None and entry.has_servers:
                update["servers_on"] = where[number]
            job = entry.model_copy(update=update)
            job._entry = index
            jobs.append(job)
    return place_by_name(jobs, hosts)


def listed_hosts(index: int, entry: TrainingJob, hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """The hosts of each job's servers, as the file lists them."""
    listed = entry.servers_on
    for name in listed:
        if name not in hosts:
            raise At(
                [index, "servers_on"],
                f"found {shown(name)}, an unknown host{nearest(name, hosts)}",
            )
    jobs = entry.count or 1
    if len(listed) != jobs * entry.servers:
        raise At(
            [index, "servers_on"],
            f"found places for {len(listed)} servers; {jobs} job(s) with {entry.servers} each "
            f"have {jobs * entry.servers}",
        )
    made = [tuple(listed[at * entry.servers : (at + 1) * entry.servers]) for at in range(jobs)]
    for number, own in enumerate(made):
        if len(set(own)) < len(own):
            raise At(
                [index, "servers_on"],
                f"found two servers of job {number + 1} on one host; a job's servers must be on "
                "different ones",
            )
    return made


def place_by_name(jobs: Sequence[TrainingJob], hosts: Sequence[str]) -> tuple[TrainingJob, ...]:
    """The same jobs, with hosts in the place of placements' names."""
    made = list(jobs)
    for name in PLACEMENTS:
        group = [at for at, job in enumerate(jobs) if job.has_servers and job.servers_on == name]
        places: dict[int, list[tuple[str, ...]]] = {}  # by servers a job
        for order, at in enumerate(group):
            job = jobs[at]
            try:
                if job.servers not in places:
                    places[job.servers] = place(name, len(group), job.servers, hosts)
            except ValueError as error:
                raise At([job.entry, "servers"], str(error)) from None
            made[at] = job.model_copy(update={"servers_on": places[job.servers][order]})
    return tuple(made)
