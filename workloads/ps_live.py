"""One parameter server and one worker of a job, live: their bytes travel over TCP.

What they do is in `ps_member.py`; `ps_tasks.py` puts all of a host into one process.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from workloads.arithmetic import Counting
from workloads.journal import Journal
from workloads.line import Line, NumberLine, Numbers
from workloads.loop import READ, WRITE, Loop
from workloads.parameter_server import Push, shards
from workloads.profiles import Layer
from workloads.ps_member import ServerMember, WorkerMember


@dataclass(frozen=True)
class Job:
    """What all tasks of a job know."""

    name: str
    port: int
    tos: int
    priority: int
    servers: list[str]  # addresses, shard by shard
    workers: list[str]  # addresses, rank by rank
    layers: list[tuple[int, int, int]]
    fusion_byte: int
    start_ns: int
    steps: int | None
    staleness: int | None
    check: bool
    sources: list[int] = field(default_factory=list)  # workers' ports; none: the kernel's choice

    @cached_property
    def shards(self) -> list[tuple[int, int]]:
        return shards(sum(layer[0] for layer in self.layers), len(self.servers))

    def arithmetic(self, server: int) -> Counting:
        start, length = self.shards[server]
        return Counting(start // 4, length // 4, len(self.workers), self.staleness)

    def line(self, sock: socket.socket) -> Line:
        return NumberLine(sock) if self.check else Line(sock)


class Host(Protocol):
    """What the tasks of a host share."""

    loop: Loop
    journal: Journal

    def fail(self, job: Job, why: str) -> None:
        """A job is broken: it ends, alone or with the run."""


class Wire:
    """A line in the loop: asks for readiness only where it would lead to something."""

    def __init__(
        self, host: Host, job: Job, other: str, sock: socket.socket, take: Callable[[], None]
    ) -> None:
        self._host = host
        self._job = job
        self._other = other
        self._take = take
        self.line = job.line(sock)
        self.closed = False
        self._sending = False
        self._wanted = READ
        host.loop.watch(sock.fileno(), READ, self._ready)

    def send(self, byte: int) -> None:
        self.line.send(byte)
        self._guarded(self._flush)

    def send_bytes(self, content: memoryview) -> None:
        assert isinstance(self.line, NumberLine)
        self.line.send_bytes(content)
        self._guarded(self._flush)

    def remaining_byte(self) -> int:
        """What the other side has not got yet; asks the kernel only while there may be some."""
        left = self.line.outstanding_byte if self._sending and not self.closed else 0
        self._sending = left > 0
        return left

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._host.loop.unwatch(self.line.sock.fileno())
            self.line.sock.close()

    def _ready(self, events: int) -> None:
        if self.line.to_send_byte:
            self._guarded(self._flush)
        if events & READ:
            self._guarded(self._take)

    def _flush(self) -> None:
        self._sending = True
        self.line.pump_out()
        wanted = READ | WRITE if self.line.to_send_byte else READ
        if wanted != self._wanted:
            self._wanted = wanted
            self._host.loop.watch(self.line.sock.fileno(), wanted, self._ready)

    def _guarded(self, action: Callable[[], None]) -> None:
        if self.closed:
            return
        try:
            action()
        except OSError as error:
            self._host.fail(self._job, f"lost {self._other}: {error}")


class LiveServer(ServerMember):
    """One server of one job: a shard of the model, and a wire to every worker."""

    def __init__(self, host: Host, job: Job, shard: int, socks: list[socket.socket]) -> None:
        self._shard_byte = job.shards[shard][1]
        super().__init__(job.name, shard, len(socks), self._shard_byte, job.staleness, host.journal)
        self.job = job
        self._clock = host.loop.clock
        self._wires = [
            Wire(host, job, f"worker {rank} ({job.workers[rank]})", sock, partial(self._take, rank))
            for rank, sock in enumerate(socks)
        ]
        self._arithmetic = job.arithmetic(shard) if job.check else None
        self._model = self._arithmetic.first_model() if self._arithmetic else None
        self._asked = [False] * len(socks)  # its first message is a request, the others gradients
        for rank, wire in enumerate(self._wires):
            wire.line.expect(self.due_byte(rank))

    def remaining_byte(self) -> int:
        """What the workers have not got yet of what they are being sent."""
        return sum(wire.remaining_byte() for wire in self._wires)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def _take(self, rank: int) -> None:
        line = self._wires[rank].line
        while not self._wires[rank].closed and line.pump_in():
            if self._model is not None and self._asked[rank]:
                self._update(line)
            self._asked[rank] = True
            self.arrived(rank, self._clock.now_ns())
            line.expect(self.due_byte(rank))

    def _update(self, line: Line) -> None:
        assert self._arithmetic is not None
        assert self._model is not None
        assert isinstance(line, NumberLine)
        gradient = line.numbers[: self._model.size]
        self._model = self._arithmetic.updated(self._model, gradient)

    def send_model(self, worker: int) -> None:
        wire = self._wires[worker]
        if self._model is None:
            wire.send(self._shard_byte)
        else:
            wire.send_bytes(padded(self._model, self._shard_byte))


class LiveWorker(WorkerMember):
    """One worker of one job: its compute, and a wire to every server."""

    def __init__(self, host: Host, job: Job, rank: int, socks: list[socket.socket]) -> None:
        super().__init__(
            job.name,
            rank,
            [Layer(*layer) for layer in job.layers],
            len(socks),
            fusion_byte=job.fusion_byte,
            steps=job.steps,
            priority=job.priority,
            journal=host.journal,
        )
        self.job = job
        self._host = host
        self._wires = [
            Wire(
                host,
                job,
                f"server {shard} ({job.servers[shard]})",
                sock,
                partial(self._take, shard),
            )
            for shard, sock in enumerate(socks)
        ]
        self._lessons = [Lesson(job, shard) for shard in range(len(socks))] if job.check else []
        for shard, wire in enumerate(self._wires):
            wire.line.expect(job.shards[shard][1])

    def now_ns(self) -> int:
        return self._host.loop.clock.now_ns()

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        self._host.loop.at(time_ns, callback)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def push(self, push: Push) -> None:
        wire = self._wires[push.server]
        if self._lessons and self._lessons[push.server].taught:
            wire.send_bytes(self._lessons[push.server].next_bytes(push.bytes))
        else:
            wire.send(push.bytes)

    def _take(self, shard: int) -> None:
        wire = self._wires[shard]
        while not wire.closed and wire.line.pump_in():
            if isinstance(wire.line, NumberLine):
                self._lessons[shard].learn(self._rank, wire.line.numbers)
            wire.line.expect(self.job.shards[shard][1])
            self.model_arrived(shard)


class Lesson:
    """The numbers of one worker and shard in test mode: checks models, gives gradients."""

    def __init__(self, job: Job, shard: int) -> None:
        self._arithmetic = job.arithmetic(shard)
        self._shard_byte = job.shards[shard][1]
        self._step = 0
        self._gradient = memoryview(b"")

    @property
    def taught(self) -> bool:
        """Whether a model has come: what is sent before that is a request, not a gradient."""
        return self._step > 0

    def learn(self, rank: int, model: Numbers) -> None:
        model = model[: self._shard_byte // 4]
        self._arithmetic.check(model, self._step)
        self._step += 1
        self._gradient = padded(self._arithmetic.gradient(rank, model), self._shard_byte)

    def next_bytes(self, byte: int) -> memoryview:
        now, self._gradient = self._gradient[:byte], self._gradient[byte:]
        return now


def padded(numbers: Numbers, byte: int) -> memoryview:
    """The bytes of numbers, as many as the message has."""
    return memoryview(numbers.tobytes().ljust(byte, b"\0")[:byte])
