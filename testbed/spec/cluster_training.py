"""The keys of a cluster's jobs that train: what an iteration is, and how many there are.

What an iteration is says a `TrainingJob`, the same as under `training:`, with the same complaints;
where it runs says the placement.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from basics import units
from testbed.spec import spans
from testbed.spec.job_misfits import RING
from testbed.spec.job_values import format_compute, read_compute
from testbed.spec.jobs import MOST_STEPS, TrainingJob, _profile
from testbed.spec.mistakes import At
from testbed.spec.spans import Span, span
from testbed.spec.values import Flag, SomeSize, SomeTime, Spec, integer, one_of
from workloads.job_plan import PARAMETER_SERVER
from workloads.jobports import MOST_JOBS
from workloads.training_work import TrainingWork

TRAINING = "training"
BUSY_KEYS = ("trace", "format", "like", "tasks", "gang", "duration")
OF_AN_ITERATION = (
    "profile", "bytes", "compute", "model", "iteration", "aggregation", "servers", "gradient",
    "fusion", "barrier", "backend",
)  # fmt: skip
OF_EPOCHS = ("epochs", "samples", "batch")
OWN_KEYS = (*OF_AN_ITERATION, "workers", "iterations", *OF_EPOCHS)
MOST_WORKERS = 10_000
_some = integer(1, MOST_STEPS)


class TrainingKeys(Spec):
    """Of an entry of `cluster.jobs`; None or the default where it is busy."""

    profile: Annotated[str, BeforeValidator(_profile)] | None = None
    whole_byte: SomeSize | None = Field(alias="bytes", default=None)
    compute_ns: Annotated[tuple[int, int], BeforeValidator(read_compute)] | None = Field(
        alias="compute", default=None
    )
    model_byte: SomeSize | None = Field(alias="model", default=None)
    iteration_ns: SomeTime | None = Field(alias="iteration", default=None)
    aggregation: Annotated[str, BeforeValidator(one_of("aggregation", RING, PARAMETER_SERVER))] = (
        RING
    )
    servers: Annotated[int, BeforeValidator(integer(1, MOST_JOBS))] | None = None
    gradient_byte: SomeSize | None = Field(alias="gradient", default=None)
    fusion_byte: SomeSize | None = Field(alias="fusion", default=None)
    barrier: Flag = True
    backend: Annotated[str, BeforeValidator(one_of("backend", "native", "torch"))] = "native"
    workers: Annotated[Span, BeforeValidator(span(integer(1, MOST_WORKERS), "2 to 4"))] | None = (
        None
    )
    iterations: Annotated[Span, BeforeValidator(span(_some, "100 to 200"))] | None = None
    epochs: Annotated[Span, BeforeValidator(span(_some, "1 to 4"))] | None = None
    samples: Annotated[int, BeforeValidator(_some)] | None = None
    batch: Annotated[int, BeforeValidator(_some)] | None = None
    _job: TrainingJob | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _its_iteration_is_right(self) -> Self:
        """A job of it as `training:` would have it, with complaints about the same keys."""
        if self.trains and self.workers is not None:
            self._job = TrainingJob.model_validate(self._plain_iteration())
        return self

    @property
    def trains(self) -> bool:
        return self.workers is not None

    @property
    def is_real(self) -> bool:
        """Whether a real training stack has its ranks."""
        return self.trains and self.backend != "native"

    @property
    def job(self) -> TrainingJob:
        assert self._job is not None, "it trains"
        return self._job

    def work(self, entry: int, workers: int, iterations: int, rate_bps: int) -> TrainingWork:
        return TrainingWork(
            entry,
            iterations,
            self.job.scaled_profile.layers,
            workers=workers,
            servers=self.job.servers if self.job.has_servers else 0,
            rate_bps=rate_bps,
            gradient_byte=self.job.gradient_byte,
        )

    def _plain_iteration(self) -> dict[str, Any]:
        """What the file says of it, as it would be written under `training:`."""
        size, time = units.format_size, units.format_time
        found: dict[str, Any] = {"name": getattr(self, "name", "job"), "profile": self.profile}
        for key, value, write in (
            ("bytes", self.whole_byte, size),
            ("model", self.model_byte, size),
            ("gradient", self.gradient_byte, size),
            ("fusion", self.fusion_byte, size),
            ("iteration", self.iteration_ns, time),
        ):
            found[key] = None if value is None else write(value)
        found["compute"] = None if self.compute_ns is None else format_compute(self.compute_ns)
        found |= {"aggregation": self.aggregation, "servers": self.servers}
        if not self.barrier:
            found["barrier"] = False
        if self.backend != "native":
            found["backend"] = self.backend
        return {key: value for key, value in found.items() if value is not None}

    def _plain_training(self) -> dict[str, Any]:
        """With what its profile fills in."""
        found = {key: value for key, value in self._plain_iteration().items() if key != "name"}
        if self.whole_byte is None:
            found["model"] = units.format_size(self.job.model_byte)
            found["iteration"] = units.format_time(self.job.iteration_ns)
        assert self.workers is not None
        assert self.iterations is not None
        found["workers"] = spans.written(self.workers, int)
        found["iterations"] = spans.written(self.iterations, int)
        return found


def training_misfits(data: dict[Any, Any]) -> Iterator[At]:
    """Of an entry's keys, before their values are looked at."""
    for key in (key for key in BUSY_KEYS if key in data):
        yield At([key], "found beside kind: training; it is for busy jobs")
    for key, example in (
        ("workers", 2), ("count", 4), ("arrivals", "uniform over 30 s"), ("demand", "{gpu: 1}"),
    ):  # fmt: skip
        if key not in data:
            yield At([key], f"missing; jobs that train need it, like {example}")
    if "profile" not in data and not {"bytes", "compute"} <= data.keys():
        yield At(["profile"], "missing; jobs that train need it, or bytes and compute")
    epochs = [key for key in OF_EPOCHS if key in data]
    if "iterations" in data:
        for key in epochs[:1]:
            yield At([key], "found beside iterations, which says it already; leave one of them out")
    elif not epochs:
        yield At(["iterations"], "missing; or give epochs, samples and batch")
    else:
        for key in (key for key in OF_EPOCHS if key not in data):
            yield At([key], "missing; epochs, samples and batch go together")


def counted(data: Any) -> Any:
    """Epochs of samples in batches as iterations."""
    if not isinstance(data, dict) or "iterations" in data or not set(OF_EPOCHS) <= data.keys():
        return data
    try:
        epochs = span(_some, "1 to 4")(data["epochs"])
        batches = -(-_some(data["samples"]) // _some(data["batch"]))
    except ValueError:  # said where the key itself is checked
        return data
    low, high = (count * batches for count in epochs)
    kept = {key: value for key, value in data.items() if key not in OF_EPOCHS}
    return {**kept, "iterations": low if low == high else f"{low} to {high}"}
