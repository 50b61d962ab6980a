"""All parameter servers and workers of one host: one process, one event loop, however many jobs.

Compute is a timer from the profile; models and gradients travel for real, over one TCP connection
for each worker and server. What a server and a worker do is in `ps_member.py`; here it is done
for all of them. Gradients are not kept: a task is a few kilobytes.
"""

import resource
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.board import Board
from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.ps_live import Job, LiveServer, LiveWorker
from workloads.sockets import TaskError, accept, connect, listener
from workloads.task import heartbeat, lateness, sleep_until

CONNECT_GAP_NS = 200_000
SIGN_OF_LIFE_NS = 1_000_000_000


@dataclass(frozen=True)
class Settings:
    """One host's tasks, as the engine describes them."""

    address: str
    jobs: list[dict[str, Any]]
    servers: list[tuple[int, int]]  # (job, shard) of those that run here
    workers: list[tuple[int, int, int]]  # (job, rank, its turn to connect)
    turns: int  # of the whole network
    go_on: bool  # a job that breaks ends alone, not the run
    board: str | None  # where to publish what is left to send, by place of `servers`
    publish_ns: int  # and how often
    dilation: float
    duration_ns: int
    journal: str


def main(config: dict[str, Any], control: Control) -> None:
    before_byte = own_byte()
    settings = Settings(**config)
    allow_many_sockets()
    connections = Connections(settings, [Job(**job) for job in settings.jobs], control)
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    with Journal(Path(settings.journal)) as journal:
        tasks = Tasks(settings, connections, Loop(clock), journal)
        tasks.run(control)
    control.say(
        "done",
        sleep_late_ns=lateness(tasks.late_ns),
        tasks=len(settings.servers) + len(settings.workers),
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
    """One connection for every worker and server of this host, by job and by the other's number."""

    def __init__(self, settings: Settings, jobs: list[Job], control: Control) -> None:
        self.jobs = jobs
        self.of_worker: dict[tuple[int, int], list[socket.socket]] = {}
        self.of_server: dict[tuple[int, int], list[socket.socket]] = {}
        doors = {
            at: listener(settings.address, jobs[at].port, jobs[at].tos)
            for at, _ in settings.servers
        }
        control.say("listening")
        connect_ns = control.hear()["connect_ns"]
        # One after another over the whole network, so that the order is always the same.
        for at, rank, turn in settings.workers:
            sleep_and_show(connect_ns + turn * CONNECT_GAP_NS, control)
            job = jobs[at]
            source = (settings.address, job.sources[rank]) if job.sources else None
            self.of_worker[at, rank] = [
                connect(address, job.port, job.tos, source) for address in job.servers
            ]
        sleep_and_show(connect_ns + settings.turns * CONNECT_GAP_NS, control)
        for at, shard in settings.servers:
            job, door = jobs[at], doors[at]
            found = [accept(door) for _ in job.workers]
            by_address = {sock.getpeername()[0]: sock for sock in found}
            self.of_server[at, shard] = [by_address[address] for address in job.workers]
            door.close()


def sleep_and_show(monotonic_ns: int, control: Control) -> None:
    """Sleep, and say now and then that this is on purpose."""
    while monotonic_ns - time.monotonic_ns() > SIGN_OF_LIFE_NS:
        sleep_until(time.monotonic_ns() + SIGN_OF_LIFE_NS)
        control.say("beat", time_ns=0)
    sleep_until(monotonic_ns)


class Tasks:
    """The tasks of a host, and what they share: the loop, the journal, and how a job fails."""

    def __init__(
        self, settings: Settings, connections: Connections, loop: Loop, journal: Journal
    ) -> None:
        self._settings = settings
        self.loop = loop
        self.journal = journal
        self._failed: set[str] = set()
        jobs = connections.jobs
        self._servers = [
            LiveServer(self, jobs[at], shard, connections.of_server[at, shard])
            for at, shard in settings.servers
        ]
        self._workers = [
            LiveWorker(self, jobs[at], rank, connections.of_worker[at, rank])
            for at, rank, _ in settings.workers
        ]
        self._board = Board.open(Path(settings.board)) if settings.board else None

    @property
    def late_ns(self) -> list[int]:
        return [late_ns for worker in self._workers for late_ns in worker.late_ns]

    def run(self, control: Control) -> None:
        loop = self.loop
        heartbeat(loop, control)
        for worker in self._workers:
            loop.at(worker.job.start_ns, worker.begin)
        if self._board is not None:
            loop.at(0, self._publish)
        loop.at(self._settings.duration_ns, loop.stop)
        loop.run()

    def fail(self, job: Job, why: str) -> None:
        """A job is broken: it ends, alone or with the run."""
        if not self._settings.go_on:
            raise TaskError(f"{job.name}: {why}")
        if job.name in self._failed:
            return
        self._failed.add(job.name)
        self.journal.write("failures", job.name, self.loop.clock.now_ns(), why)
        tasks: list[LiveServer | LiveWorker] = [*self._servers, *self._workers]
        for task in tasks:
            if task.job is job:
                task.close()  # so that its peers notice too

    def _publish(self) -> None:
        assert self._board is not None
        for place, server in enumerate(self._servers):
            self._board[place] = server.remaining_byte()
        self.loop.at(self.loop.clock.now_ns() + self._settings.publish_ns, self._publish)
