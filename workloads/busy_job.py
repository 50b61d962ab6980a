"""A job of a cluster: tasks that hold what they need for a while.

Most are busy and send nothing. One with `work` trains: its tasks are its workers, and its duration
is what it would take alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from basics.resources import Amounts
from workloads.profiles import Layer
from workloads.training_work import TrainingWork

MOST_TASKS = 2_000_000  # of all jobs of a seed; more would not fit in memory


@dataclass(frozen=True)
class BusyJob:
    name: str
    submitted_ns: int
    duration_ns: int | None  # of each task; None: until the run ends
    tasks: int
    demand: Amounts  # of each task
    gang: bool = True  # all of its tasks run together or none does
    deadline_ns: int | None = None
    work: TrainingWork | None = None

    def earlier(self, by_ns: int) -> "BusyJob":
        deadline_ns = None if self.deadline_ns is None else self.deadline_ns - by_ns
        return replace(self, submitted_ns=self.submitted_ns - by_ns, deadline_ns=deadline_ns)

    def alone_ns(self, capacity: Amounts, hosts: int) -> int | None:
        """How long it takes when the cluster is its own."""
        if self.duration_ns is None:
            return None
        at_once = min(self.tasks, self.places(capacity) * hosts)
        return -(-self.tasks // at_once) * self.duration_ns

    def places(self, capacity: Amounts) -> int:
        """How many of its tasks one host has room for."""
        return min(
            (have // need for have, need in zip(capacity, self.demand, strict=True) if need),
            default=self.tasks,
        )

    def share(self, capacity: Amounts, hosts: int) -> float:
        """The largest part of the cluster that it asks for, of any resource; 1 at most."""
        parts = [
            self.tasks * need / (have * hosts)
            for have, need in zip(capacity, self.demand, strict=True)
            if need
        ]
        return min(1.0, max(parts, default=0.0))


def in_order(jobs: Sequence[BusyJob]) -> list[BusyJob]:
    """As they come; those of the same moment as they were written."""
    return sorted(jobs, key=lambda job: job.submitted_ns)


def job_as_plain(job: BusyJob) -> dict[str, Any]:
    """For another process."""
    plain = dict(vars(job))
    if job.work is not None:
        layers = [(one.bytes, one.forward_ns, one.backward_ns) for one in job.work.layers]
        names = job.work.__dataclass_fields__
        plain["work"] = {name: getattr(job.work, name) for name in names} | {"layers": layers}
    return plain


def job_from_plain(plain: Mapping[str, Any]) -> BusyJob:
    work = plain["work"]
    if work is not None:
        layers = tuple(Layer(*layer) for layer in work["layers"])
        work = TrainingWork(**{**work, "layers": layers})
    return BusyJob(**{**plain, "demand": tuple(plain["demand"]), "work": work})
