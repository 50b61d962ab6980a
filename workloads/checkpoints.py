"""The checkpoints that a host has of a cluster's jobs: kept, fetched from others, sent, removed."""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from workloads.connection import Arrived, Connection
from workloads.doors import Place, dial
from workloads.journal import Journal
from workloads.loop import Loop
from workloads.sockets import TaskError, mark

CHECKPOINT = 2  # what a connection is for, beside bytes and words of ranks


class Checkpoints:
    """`say` tells the master that what it wanted is here, or that it cannot be had, and why.

    `at`: the address here, and the port of daemons everywhere.
    """

    def __init__(
        self,
        host: str,
        at: tuple[str, int],
        loop: Loop,
        journal: Journal,
        say: Callable[..., None],
    ) -> None:
        self._host, self._loop, self._journal = host, loop, journal
        self._address, self._port = at
        self._say = say
        self.kept: dict[int, int] = {}  # bytes, by job
        self._wanted: dict[int, int] = {}  # by job, the number of what the master wants now
        self._coming: dict[int, Connection] = {}

    def keep(self, job: int, byte: int) -> None:
        self.kept[job] = byte

    def forget(self, message: dict[str, Any]) -> None:
        """It is stale: the job has gone on elsewhere, or is done."""
        self.kept.pop(message["job"], None)

    def fetch(self, message: dict[str, Any]) -> None:
        """Get one from the host that the master names, in the band that it names."""
        job, tos, number = message["job"], message["tos"], message["number"]
        here = partial(self._all_here, message, self._loop.clock.now_ns())
        self._wanted[job] = number

        def lost(why: str) -> None:
            if self._wanted.get(job) == number:
                self.give_up(job)
                said = f"{message['name']}: lost {message['source']} and a checkpoint: {why}"
                self._say("unfetched", number=number, why=said)

        def connected(sock: socket.socket) -> None:
            if self._wanted.get(job) == number:
                self._coming[job] = Connection(sock, self._loop, here, lost)
            else:
                sock.close()

        hello = (job, 0, CHECKPOINT, tos, 0)
        port = message["source_port"]
        source = (self._address, port) if port is not None else None
        dial(self._loop, (message["address"], self._port), tos, hello, connected, lost, source)

    def give_up(self, job: int) -> None:
        """If one of this job is on its way to here, it is not wanted any more."""
        self._wanted.pop(job, None)
        if job in self._coming:
            self._coming.pop(job).close()

    def _all_here(self, message: dict[str, Any], start_ns: int, arrived: Arrived) -> None:
        job, name, source = message["job"], message["name"], message["source"]
        if arrived.byte != message["byte"]:
            raise TaskError(f"{name}: its checkpoint is not at {source}")
        self.give_up(job)
        self.kept[job] = arrived.byte
        self._journal.write(
            "checkpoints", name, source, self._host, arrived.byte, message["priority"],
            start_ns, self._loop.clock.now_ns(),
        )  # fmt: skip
        self._journal.flush()
        self._say("fetched", number=message["number"])

    def send(self, hello: Place, sock: socket.socket) -> None:
        """All of it, or a message of nothing; the other side closes when it has it."""
        job, _, _, tos, _ = hello
        mark(sock, tos)
        sending = Connection(sock, self._loop, lambda arrived: None, lambda why: sending.close())
        sending.send(0, self.kept.get(job, 0))
