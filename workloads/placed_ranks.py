"""A cluster's job on one host, on one of its placements: its ranks, sockets and records."""

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from workloads.compute import Iteration
from workloads.control import Control
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.journal import Journal
from workloads.rank import Rank
from workloads.ranks import AnyRank
from workloads.socket_world import SocketWorld

ALIVE_NS = 500_000_000  # a daemon with ranks says so often that it lives


def die(control: Control) -> None:
    """As if somebody had killed it: nothing is written and nobody is told, by this process."""
    control.say("error", message="as cluster.failures wants it")
    os.kill(os.getpid(), signal.SIGKILL)


class KeptRows:
    """Records of a placement. They are kept until it ends: if its host dies, they were not."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, tuple[str | float | None, ...]]] = []

    def write(self, table: str, *values: str | float | None) -> None:
        self._rows.append((table, values))

    def hand_over(self, journal: Journal) -> None:
        for table, values in self._rows:
            journal.write(table, *values)
        self._rows.clear()
        journal.flush()

    def close(self) -> None:
        """Nothing: they are still kept."""


@dataclass
class OnHost:
    """A job's ranks on this host, on one placement."""

    number: int
    epoch: int
    plan: JobPlan
    addresses: list[str]  # rank by rank
    numbers: list[int]  # ranks that are here
    tos: int
    total: int
    before: int | None  # where its workers are to rest, as far as that is known
    cores: Callable[[int], Cores | None]  # what a rank computes on, if others do too
    sockets: dict[tuple[int, int], dict[int, socket.socket]] = field(default_factory=dict)
    missing: int = 0  # connections that do not stand yet
    worlds: list[SocketWorld] = field(default_factory=list)
    ranks: list[AnyRank] = field(default_factory=list)
    rows: KeptRows = field(default_factory=KeptRows)
    rests: bool = False  # said so
    broken: bool = False  # said so

    @property
    def workers(self) -> list[Rank]:
        return [rank for rank in self.ranks if isinstance(rank, Rank)]

    def close(self) -> None:
        """Its ranks do nothing any more; one that computes does it to the end of that stretch."""
        for worker in self.workers:
            worker.cores = None
        for world in self.worlds:
            world.close()
        if not self.worlds:  # it has not begun
            for own in self.sockets.values():
                for sock in own.values():
                    sock.close()


@dataclass(frozen=True)
class Following:
    """Hears of one job's ranks on this host: of iterations from its first worker alone."""

    first_iterated: Callable[[Iteration], None]
    any_rested: Callable[[], None]

    def iterated(self, rank: Rank, over: Iteration) -> None:
        if rank.number == 0:
            self.first_iterated(over)

    def rested(self, rank: Rank) -> None:
        self.any_rested()
