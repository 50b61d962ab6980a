"""The master of a live cluster: a task on its first host, which leads daemons over TCP.

What it decides and how that is checked is testbed/cluster/master.py, as in a simulation. Here is
how a decision reaches hosts: a word to each daemon that has ranks of the job, and their answers.
Every placement of a job has a number (`epoch`), so that words about an earlier one are not heard.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from policies.cluster import schedulers
from testbed.cluster.daemons import Daemons
from testbed.cluster.live_gpus import LiveGpus
from testbed.cluster.live_network import LiveNetwork
from testbed.cluster.master import Master
from testbed.cluster.moments import LiveTime
from testbed.cluster.placement import Fetch, Placement
from testbed.cluster.player import HearsOfJobs
from testbed.cluster.prices import Prices
from testbed.cluster.rows import tables
from testbed.cluster.sleepers import Sleepers
from workloads.busy_job import BusyJob, job_from_plain
from workloads.cluster_daemon import MASTER_PORT
from workloads.control import Control
from workloads.host_process import CONNECT_GAP_NS
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.sockets import TaskError, connect
from workloads.task import heartbeat, sleep_until

MASTER_SOURCE = 19_000  # and up: what it connects from where there are several ways
NOTICED_NS = 2_000_000_000  # by then it is known that a host is lost


@dataclass(frozen=True)
class MasterConfig:
    hosts: list[str]
    addresses: list[str]  # host by host
    graph: dict[str, Any]
    seed: int
    capacity: list[int]  # of each host
    jobs: list[dict[str, Any]]
    plans: dict[str, dict[str, Any]]  # of training jobs, by name
    stacks: dict[str, dict[str, Any]]  # of those whose ranks are a real stack's, what it is told
    placement: str
    chosen: dict[str, Any]
    suspend_ns: int
    resume_ns: int
    bands: list[str]
    band: str
    steered: bool
    checkpoint_priority: int
    checkpoint_tos: int
    tos: int
    ends: bool  # with the last job; else after its duration
    beat_ns: int
    dilation: float
    duration_ns: int
    journal: str


def main(config: dict[str, Any], control: Control) -> None:
    settings = MasterConfig(**config)
    control.say("listening")
    connect_ns = control.hear()["connect_ns"]
    sockets, several = [], len(settings.graph["switches"]) > 1
    for turn, address in enumerate(settings.addresses):
        sleep_until(connect_ns + turn * CONNECT_GAP_NS)
        source = (settings.addresses[0], MASTER_SOURCE + turn) if several else None
        sockets.append(connect(address, MASTER_PORT, settings.tos, source))
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    loop = Loop(clock)
    heartbeat(loop, control, settings.beat_ns)
    jobs = [job_from_plain(plain) for plain in settings.jobs]
    over = partial(control.say, "over")
    leader = Leader(settings, jobs, LiveTime(loop), loop, sockets, over)
    loop.at(settings.duration_ns, loop.stop)
    loop.run()
    leader.master.close(settings.duration_ns)
    with Journal(Path(settings.journal)) as journal:
        made = tables(leader.master, tuple(settings.capacity), tuple(settings.hosts))
        for table, row in ((table, row) for table, rows in made.items() for row in rows):
            journal.write(table, *row)
    control.say("done", sleep_late_ns=[])
    control.hear()


class Leader:
    """Plays training jobs by leading daemons; hears from them what the mechanism has to know."""

    def __init__(
        self,
        settings: MasterConfig,
        jobs: Sequence[BusyJob],
        now: LiveTime,
        loop: Loop,
        sockets: Sequence[socket.socket],
        over: Callable[[], None],
    ) -> None:
        """`over` hears it if the run ends with its last job, when that is done."""
        self._settings, self._jobs, self._time, self._over = settings, jobs, now, over
        self._placements: dict[int, Placement] = {}
        self._epochs: dict[int, int] = {}
        self._transfers: dict[int, int] = {}
        self._done: dict[int, int] = {}  # iterations, when it last rested
        self._fetches: dict[int, Fetch] = {}
        self._numbers = count()
        self._daemons = Daemons(sockets, loop, now, self._hear, self._lose, self._working)
        self._sleepers = Sleepers(self._daemons.say)
        self._network = LiveNetwork(settings.graph, settings.seed, jobs)
        self.loads = self._network.loads
        around = self._network.around(settings.bands, settings.band, steered=settings.steered)
        scheduler = schedulers()[settings.placement].told(settings.chosen)
        self._gpus = LiveGpus(shared=scheduler.pack > 1)
        self.master = Master(
            jobs,
            len(settings.hosts),
            tuple(settings.capacity),
            scheduler,
            Prices(settings.suspend_ns, settings.resume_ns),
            now,
            (self, around) if settings.plans else None,
            self._sleepers,
        )
        if self.master.trainers is not None:
            self.master.trainers.gpus = self._gpus

    @property
    def _told(self) -> HearsOfJobs:
        assert self.master.trainers is not None
        return self.master.trainers

    # ---- words

    def _say_all(self, job: int, do: str, **details: Any) -> None:
        placed = self._placements[job]
        for host in placed.ranks:
            self._daemons.say(host, do, job=job, epoch=placed.epoch, **details)

    def _lose(self, host: int) -> None:
        self.master.lose(host)
        self._sleepers.lose(host)

    def _working(self) -> set[int]:
        return {host for placed in self._placements.values() for host in placed.ranks}

    def _hear(self, host: int, message: dict[str, Any]) -> None:
        said, number = message["say"], message.get("number")
        if said == "slept":
            self._sleepers.slept(host, message["number"])
            if self._settings.ends and self.master.ledger.all_done:
                self._over()
        elif said == "fetched" and number in self._fetches:
            self._fetches.pop(number).done()
        elif said == "unfetched":
            self._mend_soon(message["why"], lambda: number in self._fetches)
        job = message.get("job", -1)
        placed = self._placements.get(job)
        if placed is None or placed.epoch != message["epoch"]:
            return  # about none, or about one that is over
        if said == "broken":
            self._mend_soon(message["why"], lambda: self._placements.get(job) is placed)
        elif said == "iterated":
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
            placed.rests(host, message.get("state"))
            self._transfers[job] = max(self._transfers.get(job, 0), message["transfers"])
            if placed.rested == placed.working:
                self._done[job] = message["before"]
                self._told.rested(job, message["before"])

    def _mend_soon(self, why: str, stands: Callable[[], bool]) -> None:
        """A host that was lost explains it, and is known of soon; if none was, nothing does."""

        def look() -> None:
            if stands():
                raise TaskError(why)

        self._time.at(self._time.now_ns + NOTICED_NS, look)

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
        self._placements[job] = Placement(one.name, epoch, ranks)
        plan = settings.plans[one.name] | {
            "band": band,
            "steps": one.work.iterations,
            "first_iteration": first,
            "first_transfer": self._transfers.get(job, 0),
        }
        addresses = [settings.addresses[host] for host in places]
        sources = self._network.sources(job, epoch)
        told = {"stack": settings.stacks[one.name]} if one.name in settings.stacks else {}
        gpus = self._gpus.begun(job, one.tasks)
        self._daemons.expect(list(ranks))
        for host, own in ranks.items():
            self._daemons.say(
                host, "begin", job=job, epoch=epoch, plan=plan, addresses=addresses, ranks=own,
                total=one.work.iterations, sources=sources, **told, **gpus,
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
        self._gpus.left(job)

    def abandon(self, job: int) -> None:
        fetches = {number: one for number, one in self._fetches.items() if one.job == job}
        placed = self._placements.pop(job, None)
        self._gpus.left(job)
        epoch = self._epochs.get(job, 0)
        there = set(placed.ranks) if placed is not None else set()
        for host in sorted(there | {one.target for one in fetches.values()}):
            self._daemons.say(host, "abandon", job=job, epoch=epoch)
        for number in fetches:
            del self._fetches[number]

    def change_band(self, job: int, band: str) -> None:
        if job in self._placements:
            self._say_all(job, "band", band=band)

    def fetch(self, job: int, source: int, target: int, done: Callable[[], None]) -> None:
        one, settings = self._jobs[job], self._settings
        assert one.work is not None
        number = next(self._numbers)
        self._fetches[number] = Fetch(job, target, done)
        self._daemons.say(
            target, "fetch", job=job, name=one.name, number=number,
            source=settings.hosts[source], address=settings.addresses[source],
            byte=one.work.checkpoint_byte, tos=settings.checkpoint_tos,
            priority=settings.checkpoint_priority,
            source_port=self._network.fetch_source(job, number, target),
        )  # fmt: skip

    def forget(self, job: int, hosts: Sequence[int]) -> None:
        for host in hosts:
            self._daemons.say(host, "forget", job=job)
