"""The master of a live cluster: a task on its first host, which leads daemons over TCP.

What it decides and how that is checked is testbed/cluster/master.py, as in a simulation. Here is
how a decision reaches hosts: a word to each daemon that has ranks of the job, and their answers.
Every placement of a job has a number (`epoch`), so that words about an earlier one are not heard.
"""

import json
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from policies.cluster import schedulers
from testbed.cluster.master import Master, Prices
from testbed.cluster.moments import LiveTime
from testbed.cluster.player import HearsOfJobs, Surroundings
from testbed.cluster.rows import stretch_rows, submission_rows
from workloads.busy_job import BusyJob, job_from_plain
from workloads.cluster_daemon import MASTER_PORT
from workloads.connection import Arrived, Connection
from workloads.control import Control
from workloads.host_process import CONNECT_GAP_NS
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.sockets import TaskError, connect
from workloads.task import heartbeat, sleep_until


@dataclass(frozen=True)
class MasterConfig:
    hosts: list[str]
    addresses: list[str]  # host by host
    switch: str
    capacity: list[int]  # of each host
    jobs: list[dict[str, Any]]
    plans: dict[str, dict[str, Any]]  # of training jobs, by name
    placement: str
    chosen: dict[str, Any]
    suspend_ns: int
    resume_ns: int
    bands: list[str]
    band: str
    steered: bool
    checkpoint_priority: int
    checkpoint_tos: int
    rate_bps: int
    tos: int
    beat_ns: int
    dilation: float
    duration_ns: int
    journal: str


def main(config: dict[str, Any], control: Control) -> None:
    settings = MasterConfig(**config)
    control.say("listening")
    connect_ns = control.hear()["connect_ns"]
    sockets = []
    for turn, address in enumerate(settings.addresses):
        sleep_until(connect_ns + turn * CONNECT_GAP_NS)
        sockets.append(connect(address, MASTER_PORT, settings.tos))
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    loop = Loop(clock)
    heartbeat(loop, control, settings.beat_ns)
    jobs = [job_from_plain(plain) for plain in settings.jobs]
    leader = Leader(settings, jobs, LiveTime(loop), loop, sockets)
    loop.at(settings.duration_ns, loop.stop)
    loop.run()
    leader.master.close(settings.duration_ns)
    with Journal(Path(settings.journal)) as journal:
        for row in stretch_rows(leader.master, tuple(settings.hosts)):
            journal.write("stretches", *row)
        for row in submission_rows(leader.master, tuple(settings.capacity), len(settings.hosts)):
            journal.write("submissions", *row)
    control.say("done", sleep_late_ns=[])
    control.hear()


@dataclass
class Placement:
    """A job where it is now, and what is being agreed about it."""

    epoch: int
    ranks: dict[int, list[int]]  # by host
    standing: set[int] = field(default_factory=set)  # hosts that have said so
    held: dict[int, int] = field(default_factory=dict)  # host -> next iteration
    rested: set[int] = field(default_factory=set)
    gone: bool = False
    later: deque[dict[str, int]] = field(default_factory=deque)  # what is to be agreed
    agreeing: dict[str, int] | None = None

    @property
    def working(self) -> set[int]:
        return set(self.ranks)


class Leader:
    """Plays training jobs by leading daemons; hears from them what the mechanism has to know."""

    def __init__(
        self,
        settings: MasterConfig,
        jobs: Sequence[BusyJob],
        now: LiveTime,
        loop: Loop,
        sockets: Sequence[socket.socket],
    ) -> None:
        self._settings, self._jobs, self._time = settings, jobs, now
        self._placements: dict[int, Placement] = {}
        self._epochs: dict[int, int] = {}
        self._transfers: dict[int, int] = {}
        self._done: dict[int, int] = {}  # iterations, when it last rested
        self._fetches: list[Callable[[], None]] = []
        self._daemons = [
            Connection(sock, loop, partial(self._arrived, host), partial(self._lost, host))
            for host, sock in enumerate(sockets)
        ]
        around = Surroundings(
            tuple(settings.bands),
            settings.band,
            steered=settings.steered,
            rack=(0,) * len(settings.hosts),
            loads=self.loads,
            link_bps=dict.fromkeys(
                (
                    link
                    for host in settings.hosts
                    for link in (f"{host}->{settings.switch}", f"{settings.switch}->{host}")
                ),
                settings.rate_bps,
            ),
        )
        self.master = Master(
            jobs,
            len(settings.hosts),
            tuple(settings.capacity),
            schedulers()[settings.placement].told(settings.chosen),
            Prices(settings.suspend_ns, settings.resume_ns),
            now,
            (self, around),
        )
        assert self.master.trainers is not None
        self._told: HearsOfJobs = self.master.trainers

    # ---- words

    def _say(self, host: int, do: str, **details: Any) -> None:
        content = json.dumps({"do": do, **details}).encode()
        self._daemons[host].send(0, len(content), memoryview(content))

    def _say_all(self, job: int, do: str, **details: Any) -> None:
        placed = self._placements[job]
        for host in placed.ranks:
            self._say(host, do, job=job, epoch=placed.epoch, **details)

    def _lost(self, host: int, why: str) -> None:
        raise TaskError(f"the master lost the daemon of {self._settings.hosts[host]}: {why}")

    def _arrived(self, host: int, arrived: Arrived) -> None:
        assert arrived.content is not None
        self._time.moment(partial(self._hear, host, json.loads(bytes(arrived.content))))

    def _hear(self, host: int, message: dict[str, Any]) -> None:
        said = message["say"]
        if said == "fetched":
            self._fetches[message["number"]]()
            return
        job = message["job"]
        placed = self._placements.get(job)
        if placed is None or placed.epoch != message["epoch"]:
            return  # of a placement that is over
        if said == "iterated":
            self._told.iterated(job, message["iteration"], message["ns"])
        elif said == "standing":
            placed.standing.add(host)
            if placed.standing == placed.working:
                placed.gone = True
                self._say_all(job, "go")
                self._agree_next(job, placed)
        elif said == "held":
            placed.held[host] = message["next"]
            if placed.held.keys() == placed.working:
                self._agreed(job, placed)
        elif said == "rested":
            placed.rested.add(host)
            self._transfers[job] = max(self._transfers.get(job, 0), message["transfers"])
            if placed.rested == placed.working:
                self._done[job] = message["before"]
                self._told.rested(job, message["before"])

    # ---- what is agreed between two iterations

    def _agree(self, job: int, **what: int) -> None:
        placed = self._placements[job]
        placed.later.append(what)
        self._agree_next(job, placed)

    def _agree_next(self, job: int, placed: Placement) -> None:
        """Hold all workers, to know which iteration none of them has begun."""
        if placed.gone and placed.agreeing is None and placed.later:
            placed.agreeing = placed.later.popleft()
            placed.held = {}
            self._say_all(job, "hold")

    def _agreed(self, job: int, placed: Placement) -> None:
        what, following = placed.agreeing, max(placed.held.values())
        assert what is not None
        placed.agreeing = None
        if "by_ns" in what:
            self._say_all(job, "until", before=self._total(job), next=following, **what)
        else:
            self._say_all(job, "until", before=following)
        self._agree_next(job, placed)

    def _total(self, job: int) -> int:
        work = self._jobs[job].work
        assert work is not None
        return work.iterations

    # ---- what the mechanism asks for

    def begin(self, job: int, hosts: Sequence[int], first: int, band: str) -> None:
        one, settings = self._jobs[job], self._settings
        assert one.work is not None
        places = one.work.rank_hosts(hosts)
        ranks: dict[int, list[int]] = {}
        for rank, host in enumerate(places):
            ranks.setdefault(host, []).append(rank)
        self._epochs[job] = epoch = self._epochs.get(job, 0) + 1
        self._placements[job] = Placement(epoch, ranks)
        plan = settings.plans[one.name] | {
            "band": band,
            "steps": one.work.iterations,
            "first_iteration": first,
            "first_transfer": self._transfers.get(job, 0),
        }
        addresses = [settings.addresses[host] for host in places]
        for host, own in ranks.items():
            self._say(
                host, "begin", job=job, epoch=epoch, plan=plan, addresses=addresses, ranks=own,
                total=one.work.iterations,
            )  # fmt: skip

    def rest(self, job: int) -> None:
        self._agree(job)

    def shift(self, job: int, by_ns: int) -> None:
        self._agree(job, by_ns=by_ns)

    def end(self, job: int) -> None:
        work = self._jobs[job].work
        assert work is not None
        keep = work.checkpoint_byte if self._done[job] < work.iterations else 0
        self._say_all(job, "end", keep=keep)
        del self._placements[job]

    def change_band(self, job: int, band: str) -> None:
        if job in self._placements:
            self._say_all(job, "band", band=band)

    def fetch(self, job: int, source: int, target: int, done: Callable[[], None]) -> None:
        one, settings = self._jobs[job], self._settings
        assert one.work is not None
        self._fetches.append(done)
        self._say(
            target, "fetch", job=job, name=one.name, number=len(self._fetches) - 1,
            source=settings.hosts[source], address=settings.addresses[source],
            byte=one.work.checkpoint_byte, tos=settings.checkpoint_tos,
            priority=settings.checkpoint_priority,
        )  # fmt: skip

    def forget(self, job: int, hosts: Sequence[int]) -> None:
        for host in hosts:
            self._say(host, "forget", job=job)

    def loads(self, job: int, hosts: tuple[int, ...]) -> Mapping[str, int]:
        """On one switch there is one way."""
        work, names, switch = self._jobs[job].work, self._settings.hosts, self._settings.switch
        found: dict[str, int] = {}
        for source, target, byte in work.far(hosts) if work is not None else ():
            for link in (f"{names[source]}->{switch}", f"{switch}->{names[target]}"):
                found[link] = found.get(link, 0) + byte
        return found
