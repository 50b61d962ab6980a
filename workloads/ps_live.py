"""One parameter server and one worker of a job, live: state machines with wires and timers.

What they decide is in `parameter_server.py`; `ps_tasks.py` puts all of a host into one process.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from workloads.arithmetic import Counting
from workloads.journal import Journal
from workloads.line import Line, NumberLine, Numbers
from workloads.loop import READ, WRITE, Loop
from workloads.parameter_server import Pupil, Push, Server, Stretch, shards
from workloads.profiles import Layer
from workloads.training import Compute


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
    late_ns: list[int]

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
        self._wanted = READ
        host.loop.watch(sock.fileno(), READ, self._ready)

    def send(self, byte: int) -> None:
        self.line.send(byte)
        self._guarded(self._flush)

    def send_bytes(self, content: memoryview) -> None:
        assert isinstance(self.line, NumberLine)
        self.line.send_bytes(content)
        self._guarded(self._flush)

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


class LiveServer:
    """One server of one job: a shard of the model, and a wire to every worker."""

    def __init__(self, host: Host, job: Job, shard: int, socks: list[socket.socket]) -> None:
        self.job = job
        self._host = host
        self._shard = shard
        self._shard_byte = job.shards[shard][1]
        self._server = Server(len(socks), self._shard_byte, job.staleness)
        self._wires = [
            Wire(host, job, f"worker {rank} ({job.workers[rank]})", sock, partial(self._take, rank))
            for rank, sock in enumerate(socks)
        ]
        self._arithmetic = job.arithmetic(shard) if job.check else None
        self._model = self._arithmetic.first_model() if self._arithmetic else None
        self._asked = [False] * len(socks)  # its first message is a request, the others gradients
        for rank, wire in enumerate(self._wires):
            wire.line.expect(self._server.due_byte(rank))

    def remaining_byte(self) -> int:
        """What the workers have not got yet of what they are being sent."""
        return sum(wire.line.outstanding_byte for wire in self._wires if not wire.closed)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def _take(self, rank: int) -> None:
        line = self._wires[rank].line
        while not self._wires[rank].closed and line.pump_in():
            if self._model is not None and self._asked[rank]:
                self._update(line)
            self._asked[rank] = True
            released = self._server.arrived(rank, self._host.loop.clock.now_ns())
            line.expect(self._server.due_byte(rank))
            for worker in released:
                self._send_model(self._wires[worker])
            self._write_passages()

    def _update(self, line: Line) -> None:
        assert self._arithmetic is not None
        assert self._model is not None
        assert isinstance(line, NumberLine)
        gradient = line.numbers[: self._model.size]
        self._model = self._arithmetic.updated(self._model, gradient)

    def _send_model(self, wire: Wire) -> None:
        if self._model is None:
            wire.send(self._shard_byte)
        else:
            wire.send_bytes(padded(self._model, self._shard_byte))

    def _write_passages(self) -> None:
        for passage in self._server.passages:
            self._host.journal.write(
                "barriers",
                self.job.name,
                self._shard,
                passage.iteration,
                passage.worker,
                passage.enter_ns,
                passage.leave_ns,
            )
        self._server.passages.clear()


class LiveWorker:
    """One worker of one job: its compute, and a wire to every server."""

    def __init__(self, host: Host, job: Job, rank: int, socks: list[socket.socket]) -> None:
        self.job = job
        self._host = host
        self._rank = rank
        layers = [Layer(*layer) for layer in job.layers]
        self._pupil = Pupil(layers, len(socks), job.fusion_byte, job.steps)
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
        self._pushed: list[tuple[Compute, Stretch]] = []  # of this iteration
        self._lessons = [Lesson(job, shard) for shard in range(len(socks))] if job.check else []
        for shard, wire in enumerate(self._wires):
            wire.line.expect(job.shards[shard][1])

    @property
    def done(self) -> bool:
        """All its steps are made."""
        return self._pupil.done

    def begin(self) -> None:
        for push in self._pupil.start():
            self._wires[push.server].send(push.bytes)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def _take(self, shard: int) -> None:
        wire = self._wires[shard]
        while not wire.closed and wire.line.pump_in():
            if isinstance(wire.line, NumberLine):
                self._lessons[shard].learn(self._rank, wire.line.numbers)
            wire.line.expect(self.job.shards[shard][1])
            waited = self._pupil.running is None
            self._pupil.model_arrived(shard, self._host.loop.clock.now_ns())
            if self._pupil.finished:
                self._write_iteration()
            if waited:
                self._await_compute()

    def _await_compute(self) -> None:
        running = self._pupil.running
        if running is not None:
            self._host.loop.at(running.end_ns, partial(self._compute_done, running))

    def _compute_done(self, compute: Compute) -> None:
        host, stretch = self._host, self._pupil.stretch
        late_ns = host.loop.clock.now_ns() - compute.end_ns
        host.late_ns.append(late_ns)
        host.journal.write(
            "computes",
            self.job.name,
            self._rank,
            compute.iteration,
            compute.phase,
            compute.layer,
            compute.start_ns,
            compute.end_ns,
            late_ns,
        )
        if stretch.pushes:
            self._pushed.append((compute, stretch))
        pushes = self._pupil.compute_done()
        self._await_compute()
        for push in pushes:
            self._push(push)

    def _push(self, push: Push) -> None:
        wire = self._wires[push.server]
        if self._lessons:
            wire.send_bytes(self._lessons[push.server].next_bytes(push.bytes))
        else:
            wire.send(push.bytes)

    def _write_iteration(self) -> None:
        """An iteration is over: the model of the next one is here."""
        [row] = self._pupil.finished
        self._pupil.finished.clear()
        journal, name, rank = self._host.journal, self.job.name, self._rank
        journal.write(
            "iterations", name, rank, row.iteration, row.start_ns, row.end_ns, row.compute_ns,
            row.wait_ns,
        )  # fmt: skip
        needed_ns = row.start_ns + row.compute_ns
        for number, (compute, stretch) in enumerate(self._pushed):
            journal.write(
                "transfers", name, rank, row.iteration,
                row.iteration * len(self._pushed) + number, stretch.first_layer, stretch.layers,
                stretch.bytes, self.job.priority, compute.end_ns, compute.end_ns, row.end_ns,
                needed_ns,
            )  # fmt: skip
        self._pushed.clear()


class Lesson:
    """The numbers of one worker and shard in test mode: checks models, gives gradients."""

    def __init__(self, job: Job, shard: int) -> None:
        self._arithmetic = job.arithmetic(shard)
        self._shard_byte = job.shards[shard][1]
        self._step = 0
        self._gradient = memoryview(b"")

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
