"""A cluster's daemon on one host: begins, holds and ends ranks as the master says, over TCP.

Master and daemon exchange JSON in messages of `Connection`, inside the network of the experiment.
What the master says names a job and which of its placements (`epoch`) it is about, so that a word
about an earlier one is told from a word about this one. Checkpoints are kept here when a placement
ends, are sent to other daemons that ask for them, and are removed when the master says so.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from basics.bands import tos_of
from workloads.agreed import AgreedWorker
from workloads.checkpoints import CHECKPOINT, Checkpoints
from workloads.compute import Iteration
from workloads.connection import Arrived, Connection
from workloads.control import Control
from workloads.cores import HostCores
from workloads.doors import Place, dial, watch_door
from workloads.host_process import allow_many_sockets, own_byte, plan_from_plain
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.placed_ranks import ALIVE_NS, Following, OnHost, die
from workloads.rank import Rank
from workloads.ranks import make_rank
from workloads.sleeping import Sleeping
from workloads.socket_world import SocketWorld
from workloads.sockets import TaskError, accept, listener, mark
from workloads.stack_ranks import STACK, StackRanks
from workloads.task import heartbeat, lateness

MASTER_PORT, DOOR_PORT = 5900, 5901  # where the master comes in, and where other daemons do
# A hello: job, epoch, what for, from which rank, to which.
BYTES, WORDS = 0, 1  # what a connection is for; others: a checkpoint, a stack's process

Key = tuple[int, int]  # job, epoch


@dataclass(frozen=True)
class DaemonConfig:
    host: str
    address: str
    tos: int  # of what master and daemons say
    cores: int | None
    beat_ns: int
    dilation: float
    duration_ns: int
    journal: str
    dies_ns: int | None = None  # then it is killed: what happens to its jobs is being tried


def main(config: dict[str, Any], control: Control) -> None:
    before_byte = own_byte()
    settings = DaemonConfig(**config)
    allow_many_sockets()
    master_door = listener(settings.address, MASTER_PORT, settings.tos)
    door = listener(settings.address, DOOR_PORT, settings.tos)
    control.say("listening")
    control.hear()
    master = accept(master_door)
    master_door.close()
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    with Journal(Path(settings.journal)) as journal:
        daemon = Daemon(settings, Loop(clock), journal, (master, door), control)
        daemon.run(control)
    control.say(
        "done",
        sleep_late_ns=lateness(daemon.late_ns),
        tasks=max(1, daemon.begun),
        memory_byte=own_byte() - before_byte,
        checkpoints=daemon.kept,
    )
    control.hear()


class Daemon:
    def __init__(
        self,
        settings: DaemonConfig,
        loop: Loop,
        journal: Journal,
        sockets: tuple[socket.socket, socket.socket],
        control: Control,
    ) -> None:
        """`sockets`: the line to the master, and the door."""
        self._settings, self._loop, self._journal = settings, loop, journal
        self._jobs: dict[Key, OnHost] = {}
        self._early: dict[Key, list[tuple[Place, socket.socket]]] = {}
        self._cores = HostCores(settings.cores, loop.at)
        at = settings.address, DOOR_PORT
        self._checkpoints = Checkpoints(settings.host, at, loop, journal, self._say)
        self._stacks = StackRanks((settings.host, *at), loop, self._checkpoints, control, self._say)
        self._says_alive = False
        sleeping = Sleeping(loop, self._say)
        self.late_ns: list[int] = []
        self.begun = 0
        self._master = Connection(sockets[0], loop, self._hear, self._alone)
        watch_door(loop, sockets[1], self._greeted)
        self._does: dict[str, Callable[[dict[str, Any]], None]] = {
            "begin": self._begin,
            "go": self._go,
            "hold": self._hold,
            "until": self._until,
            "band": self._band,
            "end": self._end,
            "abandon": self._abandon,
            "sleep": sleeping.sleep,
            "wake": sleeping.wake,
            "fetch": self._checkpoints.fetch,
            "forget": self._checkpoints.forget,
        }

    def run(self, control: Control) -> None:
        heartbeat(self._loop, control, self._settings.beat_ns)
        self._loop.at(self._settings.duration_ns, self._loop.stop)
        if self._settings.dies_ns is not None:
            self._loop.at(self._settings.dies_ns, partial(die, control))
        self._loop.run()
        for job in self._jobs.values():
            self._note(job)

    @property
    def kept(self) -> list[int]:
        """Jobs whose checkpoints are here."""
        return sorted(self._checkpoints.kept)

    # ---- words

    def _hear(self, arrived: Arrived) -> None:
        assert arrived.content is not None
        message = json.loads(bytes(arrived.content))
        does = self._stacks.does if self._stacks.concerned(message) else self._does
        does[message["do"]](message)
        if len(self._stacks) and not self._says_alive:
            self._live()

    def _say(self, what: str, **details: Any) -> None:
        content = json.dumps({"say": what, **details}).encode()
        self._master.send(0, len(content), memoryview(content))

    def _alone(self, why: str) -> None:
        raise TaskError(f"the daemon of {self._settings.host} lost its master: {why}")

    def _of(self, message: dict[str, Any]) -> OnHost | None:
        """Whom it is about; None if that placement is over, or has broken."""
        job = self._jobs.get((message["job"], message["epoch"]))
        return None if job is None or job.broken else job

    def _live(self) -> None:
        """Say so from time to time, as long as there are ranks here."""
        self._says_alive = bool(self._jobs or len(self._stacks))
        if self._says_alive:
            self._say("alive")
            self._loop.at(self._loop.clock.now_ns() + ALIVE_NS, self._live)

    # ---- a placement begins

    def _begin(self, message: dict[str, Any]) -> None:
        plan = plan_from_plain(message["plan"])
        key = message["job"], message["epoch"]
        job = OnHost(
            *key, plan, message["addresses"], message["ranks"], tos_of(plan.band),
            message["total"], message["total"], partial(self._cores.of, message.get("gpus", [])),
        )  # fmt: skip
        self._jobs[key] = job
        if not self._says_alive:
            self._live()
        here, ports = set(job.numbers), message["sources"]
        for words, pairs in ((BYTES, plan.data_pairs), (WORDS, plan.control_pairs)):
            job.sockets |= {(words, number): {} for number in job.numbers}
            job.missing += sum((rank in here) + (to in here) for rank, to in pairs)
            for rank, to in (pair for pair in pairs if pair[0] in here):
                place = (*key, words, rank, to)
                address = job.addresses[to], DOOR_PORT
                then = partial(self._stands, place, rank), partial(self._broken, job)
                source = (self._settings.address, ports[rank] + words) if ports else None
                dial(self._loop, address, job.tos, place, *then, source)
        early = self._early.pop(key, [])
        for place, sock in early:
            self._stands(place, place[4], sock)
        if not job.missing and not early:
            self._say("standing", job=job.number, epoch=job.epoch)

    def _greeted(self, place: Place, sock: socket.socket) -> None:
        if place[2] == CHECKPOINT:
            self._checkpoints.send(place, sock)
        elif place[2] == STACK:
            self._stacks.greeted(place, sock)
        elif place[:2] in self._jobs:
            self._stands(place, place[4], sock)
        else:  # the master's word to this host is still on its way
            self._early.setdefault(place[:2], []).append((place, sock))

    def _stands(self, place: Place, rank: int, sock: socket.socket) -> None:
        job = self._jobs.get(place[:2])
        if job is None or job.broken:  # it has ended meanwhile
            sock.close()
            return
        _, _, words, caller, called = place
        mark(sock, job.tos)
        job.sockets[words, rank][called if rank == caller else caller] = sock
        job.missing -= 1
        if not job.missing:
            self._say("standing", job=job.number, epoch=job.epoch)

    def _go(self, message: dict[str, Any]) -> None:
        job = self._of(message)
        if job is None:
            return
        plan = replace(job.plan, start_ns=self._loop.clock.now_ns())
        for number in job.numbers:
            data, words = (job.sockets[what, number] for what in (BYTES, WORDS))
            for sock in (*data.values(), *words.values()):
                mark(sock, job.tos)  # the band may have changed since it was connected
            world = SocketWorld(plan, number, self._loop, data, words, partial(self._broken, job))
            world.rank = make_rank(plan, number, world, job.rows, job.cores(number))
            if isinstance(world.rank, Rank):
                world.rank.watcher = Following(partial(self.iterated, job), partial(self.look, job))
            job.worlds.append(world)
            job.ranks.append(world.rank)
            self.begun += 1
        for worker in job.workers:
            worker.begin()

    def _broken(self, job: OnHost, why: str) -> None:
        """A host has died, perhaps: the master knows, or will. Nothing more is done until then."""
        if not (job.rests or job.broken):  # else others have ended it a moment before
            job.broken = True
            job.close()
            said = f"{job.plan.name}: {why}"
            self._say("broken", job=job.number, epoch=job.epoch, why=said)

    # ---- between two iterations

    def _hold(self, message: dict[str, Any]) -> None:
        if (job := self._of(message)) is not None:
            job.before = None
            for worker in job.workers:
                worker.hold()
            following = max((worker.next_iteration for worker in job.workers), default=0)
            self._say("held", job=job.number, epoch=job.epoch, next=following)

    def _until(self, message: dict[str, Any]) -> None:
        if (job := self._of(message)) is not None:
            job.before = message["before"]
            for worker in job.workers:
                if "by_ns" in message:
                    worker.shift(message["next"], message["by_ns"])
                worker.rest_before(job.before)
            self.look(job)

    def look(self, job: OnHost) -> None:
        """Tell the master if all workers here rest where they were to."""
        resting = [one.quiet and one.next_iteration == job.before for one in job.workers]
        if not job.rests and job.before is not None and all(resting):
            job.rests = True
            agreed = [rank.next_transfer for rank in job.ranks if isinstance(rank, AgreedWorker)]
            made = {"before": job.before, "transfers": max(agreed, default=0)}
            self._say("rested", job=job.number, epoch=job.epoch, **made)

    def iterated(self, job: OnHost, over: Iteration) -> None:
        length_ns = over.end_ns - over.start_ns
        self._say(
            "iterated", job=job.number, epoch=job.epoch, iteration=over.iteration, ns=length_ns
        )

    def _band(self, message: dict[str, Any]) -> None:
        if (job := self._of(message)) is not None:
            job.plan = replace(job.plan, band=message["band"])  # if it has not begun yet
            job.tos = tos_of(message["band"])
            for worker in job.workers:
                worker.change_band(message["band"])

    def _end(self, message: dict[str, Any]) -> None:
        job = self._jobs.pop((message["job"], message["epoch"]))
        self._note(job)
        job.close()
        if message["keep"]:
            self._checkpoints.keep(job.number, message["keep"])

    def _abandon(self, message: dict[str, Any]) -> None:
        """A host was lost: what its ranks did here since they began has not happened."""
        self._checkpoints.give_up(message["job"])
        key = message["job"], message["epoch"]
        if key in self._jobs:
            self._jobs.pop(key).close()
        for _, sock in self._early.pop(key, []):
            sock.close()

    def _note(self, job: OnHost) -> None:
        for worker in job.workers:
            worker.write_transfers()
            self.late_ns += worker.late_ns
        job.rows.hand_over(self._journal)
