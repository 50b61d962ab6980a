"""The training jobs of an experiment file: what each computes and sends, and where it runs.

An entry with `count: 21` is 21 jobs; testbed.spec.placing writes them out.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from basics import units
from policies.cluster.placements import BY_RACK, Racks
from testbed.spec.job_hosts import hosts_of_workers, hosts_that_sum
from testbed.spec.job_misfits import BOTH, FORWARD, RING, misfits, misfits_of_its_work
from testbed.spec.job_values import (
    byte_rate,
    format_compute,
    read_compute,
    read_servers_on,
    read_workers,
    without_layers,
)
from testbed.spec.mistakes import At, collected
from testbed.spec.reduction import HOST, Reduction
from testbed.spec.transfer import TransferChoice
from testbed.spec.values import (
    Flag,
    SafeName,
    SomeSize,
    SomeTime,
    Spec,
    Time,
    integer,
    one_of,
    usable,
)
from workloads import collectives, profiles
from workloads.job_plan import FIXED_GROUPS, PARAMETER_SERVER, READY
from workloads.jobports import MOST_JOBS

MOST_STEPS = 2**31 - 1

_profile = usable("profile", profiles.available, "; `giveway profile` makes one")


class TrainingJob(Spec):
    what: ClassVar[str] = "a training job"

    name: SafeName
    profile: Annotated[str, BeforeValidator(_profile)] | None = None
    # Or, instead of its layers: bytes that are ready as a whole, after a time that is drawn.
    whole_byte: SomeSize | None = Field(alias="bytes", default=None)
    compute_ns: Annotated[tuple[int, int], BeforeValidator(read_compute)] | None = Field(
        alias="compute", default=None
    )
    every_ns: SomeTime | None = Field(alias="every", default=None)  # at most one iteration in this
    model_byte: SomeSize = Field(alias="model")
    aggregation: Annotated[
        str, BeforeValidator(one_of("aggregation", *collectives.reducing(), PARAMETER_SERVER))
    ] = RING
    workers: Annotated[Literal["all"] | int | tuple[str, ...], BeforeValidator(read_workers)] = (
        "all"
    )
    workers_on: Annotated[str, BeforeValidator(one_of("order of racks", *BY_RACK))] = "packed"
    iteration_ns: SomeTime = Field(alias="iteration")
    fusion_byte: SomeSize = Field(alias="fusion", default=64_000_000)
    order: Annotated[str, BeforeValidator(one_of("order", "fifo", "layer"))] = "fifo"
    transfer: TransferChoice | None = None
    groups: Annotated[str, BeforeValidator(one_of("kind of groups", READY, *FIXED_GROUPS))] = READY
    barrier: Flag = True
    passes: Annotated[str, BeforeValidator(one_of("kind of passes", BOTH, FORWARD))] = BOTH
    backend: Annotated[str, BeforeValidator(one_of("backend", "native", "torch", "horovod"))] = (
        "native"
    )
    check: Flag = False  # test mode: real numbers are summed, and the sums checked
    count: Annotated[int, BeforeValidator(integer(1, MOST_JOBS))] | None = None
    family: SafeName | None = None  # whom reports count it to; a count's jobs are one by themselves
    start_ns: Time = Field(alias="start", default=0)
    stagger_ns: Time = Field(alias="stagger", default=0)  # of a count: each starts later by this
    steps: Annotated[int, BeforeValidator(integer(1, MOST_STEPS))] | None = None
    gradient_byte: SomeSize | None = Field(alias="gradient", default=None)  # None: as the model
    servers: Annotated[int, BeforeValidator(integer(1, MOST_JOBS))] = 1
    servers_on: Annotated[str | tuple[str, ...], BeforeValidator(read_servers_on)] = "spread"
    synchronisation: Annotated[str, BeforeValidator(one_of("synchronisation", "sync", "async"))] = (
        "sync"
    )
    stale: Annotated[int, BeforeValidator(integer(0, MOST_STEPS))] = 0
    reduce: Reduction | None = None  # on the way to servers; None: every worker with every server
    update_byte_s: Annotated[int, BeforeValidator(byte_rate)] | None = Field(
        alias="update", default=None
    )
    _host_names: tuple[str, ...] = PrivateAttr(())
    _racks: tuple[int, ...] = PrivateAttr(())
    _summing_names: tuple[str, ...] = PrivateAttr(())
    _entry: int = PrivateAttr(0)

    @classmethod
    def normal(cls, data: Any) -> Any:
        """A job without a model size or an iteration time takes its profile's."""
        if isinstance(data, dict) and {"bytes", "compute"} <= data.keys():
            try:
                iteration_ns = sum(read_compute(data["compute"])) // 2
            except ValueError:  # said where the key itself is checked
                iteration_ns = 1
            return {"model": data["bytes"], "iteration": units.format_time(iteration_ns), **data}
        try:
            profile = profiles.available()[_profile(data["profile"])]
        except (KeyError, TypeError, ValueError):  # said where the key itself is checked
            return data
        return {
            "model": units.format_size(profile.nominal_model_byte),
            "iteration": units.format_time(profile.nominal_iteration_ns),
            **data,
        }

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        """What the profile fills in is not the file's to say, nor missing if the profile is."""
        whole = "bytes" in data
        needed = {"profile": not whole, "compute": whole, "model": False, "iteration": False}
        return {**super().keys(data), **needed}

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        whole = {key: data[key] for key in ("bytes", "compute") if key in data}
        return misfits_of_its_work(data, cls.normal(whole))

    @model_validator(mode="after")
    def _fits_its_aggregation(self) -> Self:
        collected(misfits(self))
        return self

    def fault_of(self, transfer: TransferChoice) -> str | None:
        """Why this job cannot send so."""
        if self.reduce is not None:
            return "found beside reduce, which sums gradients as they become ready"
        if self.gradient_byte is not None:
            return "found beside gradient; what is pushed in parts is as large as what comes back"
        checks_models = self.has_servers and self.check
        return transfer.fault(self.scaled_profile, self.backend, checks_models=checks_models)

    @property
    def has_servers(self) -> bool:
        return self.aggregation == PARAMETER_SERVER

    @property
    def sending(self) -> TransferChoice:
        """How it sends its tensors if its policy says nothing else."""
        return self.transfer or TransferChoice.named(self.order)

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
    def racks(self) -> tuple[int, ...]:
        """Which rack each worker is in, rank by rank."""
        return self._racks

    @property
    def summing_names(self) -> tuple[str, ...]:
        """The hosts that do nothing but sum, a rack each, in the order of the racks' workers."""
        return self._summing_names

    @property
    def sums_on_hosts(self) -> bool:
        return self.reduce is not None and self.reduce.aggregator == HOST

    @property
    def by_rack(self) -> bool:
        """Whether how it aggregates depends on racks."""
        if self.has_servers:
            return self.reduce is not None
        return collectives.available()[self.aggregation].by_rack is not None

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
        if self.profile is None:
            assert self.compute_ns is not None
            return without_layers(self.model_byte, self.compute_ns)
        scaled = profiles.load(self.profile).scaled(self.model_byte, self.iteration_ns)
        return scaled.forward_only() if self.passes == FORWARD else scaled

    def settle(self, racks: Racks, duration_ns: int | None) -> None:
        """Give every worker its host. Called once, when the jobs of an experiment are placed."""
        if duration_ns is not None and self.start_ns >= duration_ns:
            raise At(
                ["start"],
                f"found {units.format_time(self.start_ns)} for {self.name}; it must be before the "
                f"end, {units.format_time(duration_ns)}",
            )
        try:
            self._host_names = hosts_of_workers(self, racks)
            rack_of = {host: at for at, rack in enumerate(racks) for host in rack}
            self._racks = tuple(rack_of[host] for host in self._host_names)
            self._fits_its_racks()
        except ValueError as error:
            raise At(["workers"], str(error)) from None
        self._summing_names = hosts_that_sum(self, self._host_names, racks)
        self._entry = 0  # only complaints need it, and a resolved file has other entries

    def _fits_its_racks(self) -> None:
        if not self.has_servers:
            odd = collectives.available()[self.aggregation].refuses_racks(self._racks)
            if odd is not None:
                raise ValueError(f"{self.aggregation} {odd}")

    def _plain_work(self) -> dict[str, Any]:
        if self.whole_byte is None or self.compute_ns is None:
            return {
                "profile": self.profile,
                "model": units.format_size(self.model_byte),
                "iteration": units.format_time(self.iteration_ns),
            }
        every = {} if self.every_ns is None else {"every": units.format_time(self.every_ns)}
        compute = format_compute(self.compute_ns)
        return {"bytes": units.format_size(self.whole_byte), "compute": compute, **every}

    def plain(self) -> dict[str, Any]:
        workers = list(self.workers) if isinstance(self.workers, tuple) else self.workers
        plain: dict[str, Any] = {
            "name": self.name,
            **self._plain_work(),
            "aggregation": self.aggregation,
            "workers": workers,
            **({} if self.workers_on == "packed" else {"workers_on": self.workers_on}),
            "barrier": self.barrier,
            "backend": self.backend,
            "check": self.check,
            "start": units.format_time(self.start_ns),
        }
        told = self.transfer
        plain |= {"order": self.order} if told is None else {"transfer": told.plain()}
        parted = self.transfer is not None and self.has_servers
        if self.backend != "native" or (not parted and self.sending.transfer_policy.fuses):
            plain["fusion"] = units.format_size(self.fusion_byte)
        if self.groups != READY:
            plain["groups"] = self.groups
        if self.passes != BOTH:
            plain["passes"] = self.passes
        if self.update_byte_s is not None:
            plain["update"] = f"{units.format_size(self.update_byte_s)}/s"
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
        if self.reduce is not None:
            plain["reduce"] = self.reduce.plain()
        if self.gradient_byte is not None:
            plain["gradient"] = units.format_size(self.gradient_byte)
        return plain
