"""The checkpoints that a host has of a cluster's jobs: kept, fetched from others, sent, removed.

One is so many bytes that mean nothing, or the state of a real training stack. That travels behind
its SHA-256: it is whole, or it is not there.
"""

import hashlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from workloads.connection import Arrived, Connection
from workloads.doors import Place, dial
from workloads.journal import Journal
from workloads.loop import Loop
from workloads.sockets import TaskError, mark

HASH_BYTE = 32
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
        self.states: dict[int, bytes] = {}  # of those jobs that have real ones
        self._wanted: dict[int, int] = {}  # by job, the number of what the master wants now
        self._coming: dict[int, Connection] = {}

    def keep(self, job: int, byte: int) -> None:
        self.kept[job] = byte

    def keep_state(self, job: int, state: bytes) -> None:
        self.kept[job], self.states[job] = len(state), state

    def forget(self, message: dict[str, Any]) -> None:
        """It is stale: the job has gone on elsewhere, or is done."""
        self.kept.pop(message["job"], None)
        self.states.pop(message["job"], None)

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
        if arrived.content is not None:
            self.keep_state(job, whole(arrived.content, f"{name}: its checkpoint from {source}"))
        elif arrived.byte == message["byte"]:
            self.keep(job, arrived.byte)
        else:
            raise TaskError(f"{name}: its checkpoint is not at {source}")
        self.give_up(job)
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
        if job in self.states:
            content = memoryview(sealed(self.states[job]))
            sending.send(0, len(content), content)
        else:
            sending.send(0, self.kept.get(job, 0))


def sealed(state: bytes) -> bytes:
    return hashlib.sha256(state).digest() + state


def whole(content: memoryview, what: str) -> bytes:
    """What was sealed; nothing else is taken for a state."""
    hashed, state = bytes(content[:HASH_BYTE]), bytes(content[HASH_BYTE:])
    if hashlib.sha256(state).digest() != hashed:
        raise TaskError(f"{what} was damaged on its way")
    return state
