"""Who plays a cluster's training jobs: what the mechanism asks of an engine, and hears from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from policies.cluster.training_view import Loads
from testbed.cluster.ledger import TaskStretch


class HearsOfJobs(Protocol):
    """Who hears of training jobs."""

    def iterated(self, job: int, iteration: int, length_ns: int) -> None:
        """Its first worker has made an iteration, in this time."""

    def rested(self, job: int, before: int) -> None:
        """All of its workers rest before this iteration, and nothing of them is under way."""


class Player(Protocol):
    def begin(self, job: int, hosts: Sequence[int], first: int, band: str) -> None:
        """A job's ranks begin on these hosts, with this iteration."""

    def rest(self, job: int) -> None:
        """Its workers rest before the next iteration that none has begun; `rested` is told then."""

    def end(self, job: int) -> None:
        """Its workers rest: its ranks are not needed any more."""

    def abandon(self, job: int) -> None:
        """A host is lost: its ranks stop where they are, and nobody fetches its checkpoint now."""

    def shift(self, job: int, by_ns: int) -> None:
        """The next iteration that no worker has begun begins later by so much."""

    def change_band(self, job: int, band: str) -> None:
        """What it sends from now on goes into this band, if it has ranks now."""

    def fetch(self, job: int, source: int, target: int, done: Callable[[], None]) -> None:
        """A host gets the job's checkpoint from another one."""

    def forget(self, job: int, hosts: Sequence[int]) -> None:
        """What these hosts have of its checkpoints is stale, and is removed."""

    def loads(self, job: int, hosts: tuple[int, ...]) -> Mapping[str, int]:
        """Bytes of an iteration on each link, if its tasks were on these hosts."""


class BusyPlayer(Protocol):
    def work(self, stretch: TaskStretch, done: Callable[[], None]) -> None:
        """Its tasks work from now on, for as long as it says."""

    def stop(self, stretch: TaskStretch) -> None:
        """They do not, if they did."""


class SharesGpus(Protocol):
    """A player that can have several jobs on the same GPUs."""

    def share(self, job: int, other: int) -> None:
        """When this job begins, it computes on the GPUs of the other, which is at work."""


@dataclass(frozen=True)
class Surroundings:
    """What schedulers may get to know of the network that training jobs run in."""

    bands: tuple[str, ...]
    band: str  # that jobs send in, until a scheduler says otherwise
    steered: bool
    rack: tuple[int, ...]  # of each host
    loads: Loads
    link_bps: Mapping[str, int]
