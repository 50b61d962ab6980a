"""All of Giveway's own ranks on one host: one process, one event loop, however many jobs.

Compute is a timer from the profile; models and gradients travel for real, over one TCP connection
for each two ranks that send each other bytes. What ranks do is in rank.py and server.py; here it
is done for all of them. Gradients are not kept: a rank is a few kilobytes.
"""

import resource
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workloads.board import Board
from workloads.control import Control
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.profiles import Layer
from workloads.rank import Rank
from workloads.ranks import AnyRank, make_rank
from workloads.server import ParameterServer
from workloads.socket_world import SocketWorld
from workloads.sockets import TaskError, accept, connect, listener
from workloads.task import heartbeat, lateness, sleep_until
from workloads.tcp_samples import TcpSamples

CONNECT_GAP_NS = 200_000
SIGN_OF_LIFE_NS = 1_000_000_000
HELLO = struct.Struct("!II")  # who connects, to whom: ranks


def plan_from_plain(plain: Mapping[str, Any]) -> JobPlan:
    """What `plan_as_plain` in testbed/job_plans.py wrote, after a way as JSON."""
    plan = dict(plain)
    plan["layers"] = tuple(Layer(*layer) for layer in plan["layers"])
    if plan["compute_ns"] is not None:
        plan["compute_ns"] = tuple(plan["compute_ns"])
    plan["bands"], plan["racks"] = tuple(plan["bands"]), tuple(plan["racks"])
    return JobPlan(**plan)


@dataclass(frozen=True)
class HostJob:
    """A job with ranks on this host: what they know, and where the others are."""

    plan: JobPlan
    port: int  # of bytes; words go to the next one
    tos: int
    addresses: list[str]  # rank by rank
    sources: list[int]  # ports to connect from, rank by rank; none: the kernel's choice

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "HostJob":
        return cls(**{**plain, "plan": plan_from_plain(plain["plan"])})


@dataclass(frozen=True)
class Dial:
    """A connection that a rank of this host makes, when it is its turn."""

    turn: int
    job: int
    words: bool
    rank: int
    to: int


@dataclass(frozen=True)
class HostConfig:
    """One host's ranks, as the engine describes them."""

    address: str
    jobs: list[dict[str, Any]]
    ranks: list[tuple[int, int]]  # (job, rank) of those that live here, servers first
    dials: list[list[Any]]
    awaited: list[tuple[int, bool, int]]  # (job, words, how many) that others make to here
    turns: int  # of the whole network
    cores: int | None  # that its tasks compute on; None: one each
    go_on: bool  # a job that breaks ends alone, not the run
    board: str | None  # where to publish what servers have left to send, server by server
    publish_ns: int  # and how often
    dilation: float
    duration_ns: int
    journal: str
    sample_ns: int = 0  # how often the connections for bytes are sampled; 0: never


def main(config: dict[str, Any], control: Control) -> None:
    before_byte = own_byte()
    settings = HostConfig(**config)
    allow_many_sockets()
    connections = Connections(settings, control)
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    with Journal(Path(settings.journal)) as journal:
        host = Host(settings, connections, Loop(clock), journal)
        host.run(control)
    control.say(
        "done",
        sleep_late_ns=lateness(host.late_ns),
        tasks=len(settings.ranks),
        memory_byte=own_byte() - before_byte,
    )
    control.hear()  # stay until all are done: a closed socket would look like a death


def allow_many_sockets() -> None:
    """A host of many servers holds a socket for each of their workers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def own_byte() -> int:
    """This process's memory that is no file's; what it was forked with is in it."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Connections:
    """The sockets of this host's ranks, by job, rank and the other's rank: for bytes, for words."""

    def __init__(self, settings: HostConfig, control: Control) -> None:
        self.jobs = [HostJob.from_plain(job) for job in settings.jobs]
        self.sockets: dict[tuple[int, bool, int], dict[int, socket.socket]] = {
            (at, words, rank): {} for at, rank in settings.ranks for words in (False, True)
        }
        doors = [
            (at, words, count, listener(settings.address, self.jobs[at].port + words, tos))
            for at, words, count in settings.awaited
            for tos in [self.jobs[at].tos]
        ]
        control.say("listening")
        connect_ns = control.hear()["connect_ns"]
        # One after another over the whole network, so that the order is always the same.
        for dial in (Dial(*plain) for plain in settings.dials):
            sleep_and_show(connect_ns + dial.turn * CONNECT_GAP_NS, control)
            self._dial(settings.address, dial)
        sleep_and_show(connect_ns + settings.turns * CONNECT_GAP_NS, control)
        for at, words, count, door in doors:
            for _ in range(count):
                sock = accept(door)
                rank, to = HELLO.unpack(received(sock, HELLO.size))
                self.sockets[at, words, to][rank] = sock
            door.close()

    def _dial(self, address: str, dial: Dial) -> None:
        job = self.jobs[dial.job]
        source = (address, job.sources[dial.rank] + dial.words) if job.sources else None
        sock = connect(job.addresses[dial.to], job.port + dial.words, job.tos, source)
        sock.sendall(HELLO.pack(dial.rank, dial.to))
        self.sockets[dial.job, dial.words, dial.rank][dial.to] = sock


def received(sock: socket.socket, byte: int) -> bytes:
    """So many bytes, that were sent before this end was looked at."""
    found = b""
    while len(found) < byte:
        piece = sock.recv(byte - len(found))
        if not piece:
            raise TaskError(f"{sock.getpeername()} connected and left")
        found += piece
    return found


def sleep_and_show(monotonic_ns: int, control: Control) -> None:
    """Sleep, and say now and then that this is on purpose."""
    while monotonic_ns - time.monotonic_ns() > SIGN_OF_LIFE_NS:
        sleep_until(time.monotonic_ns() + SIGN_OF_LIFE_NS)
        control.say("beat", time_ns=0)
    sleep_until(monotonic_ns)


class Host:
    """The ranks of a host, and what they share: the loop, the journal, and how a job fails."""

    def __init__(
        self, settings: HostConfig, connections: Connections, loop: Loop, journal: Journal
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._journal = journal
        self._failed: set[str] = set()
        self._worlds: list[tuple[JobPlan, SocketWorld]] = []
        self._ranks: list[AnyRank] = []
        cores = Cores(settings.cores, loop.at) if settings.cores else None
        for at, number in settings.ranks:
            plan = connections.jobs[at].plan
            data, words = (connections.sockets[at, words, number] for words in (False, True))
            world = SocketWorld(plan, number, loop, data, words, partial(self.fail, plan))
            world.rank = make_rank(plan, number, world, journal, cores)
            self._worlds.append((plan, world))
            self._ranks.append(world.rank)
        self._samples = self._sampled(connections) if settings.sample_ns else None
        self._board = Board.open(Path(settings.board)) if settings.board else None

    def _sampled(self, connections: Connections) -> TcpSamples:
        samples = TcpSamples(self._loop, "tcp_of_ranks", self._settings.sample_ns)
        for at, rank in self._settings.ranks:
            for to, sock in connections.sockets[at, False, rank].items():
                samples.add((connections.jobs[at].plan.name, rank, to), sock)
        return samples

    @property
    def _workers(self) -> list[Rank]:
        return [rank for rank in self._ranks if isinstance(rank, Rank)]

    @property
    def late_ns(self) -> list[int]:
        return [late_ns for worker in self._workers for late_ns in worker.late_ns]

    def run(self, control: Control) -> None:
        loop = self._loop
        heartbeat(loop, control)
        for worker in self._workers:
            loop.at(worker.plan.start_ns, worker.begin)
        if self._board is not None:
            loop.at(0, self._publish)
        loop.at(self._settings.duration_ns, loop.stop)
        loop.run()
        for worker in self._workers:
            worker.write_transfers()
        if self._samples is not None:
            self._samples.write(self._journal)

    def fail(self, plan: JobPlan, why: str) -> None:
        """A job is broken: it ends, alone or with the run."""
        if not self._settings.go_on:
            raise TaskError(f"{plan.name}: {why}")
        if plan.name in self._failed:
            return
        self._failed.add(plan.name)
        self._journal.write("failures", plan.name, self._loop.clock.now_ns(), why)
        for other, world in self._worlds:
            if other is plan:
                world.close()  # so that its peers notice too

    def _publish(self) -> None:
        assert self._board is not None
        servers = [rank for rank in self._ranks if isinstance(rank, ParameterServer)]
        for place, server in enumerate(servers):
            self._board[place] = server.remaining_byte()
        self._loop.at(self._loop.clock.now_ns() + self._settings.publish_ns, self._publish)
