"""The native training worker: one process a host, no torch.

Compute is a timer from the profile; gradients travel for real, in a ring over TCP. Rank 0 also
coordinates: workers tell it which gradients they have, it tells them what to send next.
"""

import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import READ, WRITE, Clock, Loop
from workloads.profiles import Layer
from workloads.ring import NumberTransfer, RingTransfer, check_sum, sample_numbers
from workloads.sockets import NumberReader, accept, connect, listener, send_numbers
from workloads.task import heartbeat, lateness, sleep_until
from workloads.training import Compute, Coordinator, Trainee

CONNECT_GAP_NS = 1_000_000


@dataclass(frozen=True)
class Settings:
    """One worker of one job, as the engine describes it."""

    job: str
    rank: int
    addresses: list[str]
    port: int  # ring; the coordinator listens on the next one
    tos: int
    priority: int
    layers: list[tuple[int, int, int]]
    fusion_byte: int
    order: str
    barrier: bool
    check: bool
    dilation: float
    duration_ns: int
    journal: str
    start_ns: int = 0
    steps: int | None = None  # then it rests


@dataclass
class Underway:
    """A transfer that this worker takes part in now."""

    number: int
    iteration: int
    layers: tuple[int, ...]
    ring: RingTransfer
    start_ns: int


def main(config: dict[str, Any], control: Control) -> None:
    settings = Settings(**config)
    peers = Peers(settings, control)
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    with Journal(Path(settings.journal)) as journal:
        worker = Worker(settings, peers, Loop(clock), journal)
        worker.run(control)
    control.say("done", sleep_late_ns=lateness(worker.late_ns), iterations=worker.iterations)
    control.hear()  # stay until all are done: a closed socket would look like a death


class Peers:
    """The connections of one worker: ring neighbours, and the star around the coordinator."""

    def __init__(self, settings: Settings, control: Control) -> None:
        rank, addresses, tos = settings.rank, settings.addresses, settings.tos
        workers = len(addresses)
        ring_door = listener(addresses[rank], settings.port, tos)
        star_door = listener(addresses[0], settings.port + 1, tos) if rank == 0 else None
        control.say("listening")
        # One after another, so that the order of connections is the ranks'.
        sleep_until(control.hear()["connect_ns"] + rank * CONNECT_GAP_NS)
        self.next = connect(addresses[(rank + 1) % workers], settings.port, tos)
        self.last = accept(ring_door)
        # Rank 0 is connected to all others, the others to rank 0.
        self.star: list[socket.socket]
        if star_door is None:
            self.star = [connect(addresses[0], settings.port + 1, tos)]
        else:
            self.star = [accept(star_door) for _ in range(workers - 1)]
        for sock in (self.next, self.last):
            sock.setblocking(False)


class Worker:
    def __init__(self, settings: Settings, peers: Peers, loop: Loop, journal: Journal) -> None:
        self._settings = settings
        self._peers = peers
        self._loop = loop
        self._journal = journal
        self._workers = len(settings.addresses)
        layers = [Layer(*layer) for layer in settings.layers]
        self._bytes = [layer.bytes for layer in layers]
        self._trainee = Trainee(layers, settings.barrier)
        self._coordinator = (
            Coordinator(self._bytes, self._workers, settings.fusion_byte, settings.order)
            if settings.rank == 0
            else None
        )
        self._ready_ns: dict[int, int] = {}
        self._agreed: list[tuple[int, ...]] = []  # transfers decided, not yet begun here
        self._underway: Underway | None = None
        self._decided = 0
        self._unneeded: list[tuple[Any, ...]] = []  # finished, their need not yet known
        self._watched = (False, False)
        self.late_ns: list[int] = []
        self.iterations = 0

    def run(self, control: Control) -> None:
        loop = self._loop
        for sock in self._peers.star:
            reader = NumberReader(sock)
            sock.setblocking(False)
            loop.watch(sock.fileno(), READ, partial(self._hear, reader))
        heartbeat(loop, control)
        loop.at(self._settings.start_ns, self._begin)
        loop.at(self._settings.duration_ns, loop.stop)
        loop.run()
        self._write_transfers()

    def _begin(self) -> None:
        self._trainee.start(self._settings.start_ns)
        self._await_compute()

    # Compute

    def _await_compute(self) -> None:
        running = self._trainee.running
        steps = self._settings.steps
        if running is not None and (steps is None or running.iteration < steps):
            self._loop.at(running.end_ns, partial(self._compute_done, running))

    def _compute_done(self, compute: Compute) -> None:
        now_ns = self._loop.clock.now_ns()
        late_ns = now_ns - compute.end_ns
        self.late_ns.append(late_ns)
        self._journal.write(
            "computes",
            self._settings.job,
            self._settings.rank,
            compute.iteration,
            compute.phase,
            compute.layer,
            compute.start_ns,
            compute.end_ns,
            late_ns,
        )
        if compute.phase == "backward" and compute.layer == len(self._bytes) - 1:
            self._write_transfers()  # the forward pass is over: every need is known
        layer = self._trainee.compute_done()
        self._await_compute()
        self._write_iterations()
        if layer is not None:
            self._ready_ns[layer] = now_ns
            self._tell_ready(layer)

    # Agreement

    def _tell_ready(self, layer: int) -> None:
        if self._coordinator is None:
            send_numbers(self._peers.star[0], layer)
        else:
            self._coordinator.gradient_ready(layer)
            self._decide()

    def _hear(self, reader: NumberReader, events: int) -> None:
        for message in reader.read():
            if self._coordinator is None:
                self._agreed.append(message)
            else:
                self._coordinator.gradient_ready(message[0])
        if self._coordinator is None:
            self._start_next()
        else:
            self._decide()

    def _decide(self) -> None:
        """Rank 0: agree on the next transfer if none is in flight."""
        if self._coordinator is None or self._underway is not None:
            return
        layers = self._coordinator.next_transfer()
        if not layers:
            return
        for sock in self._peers.star:
            send_numbers(sock, *layers)
        self._agreed.append(tuple(layers))
        self._start_next()

    # Transfers

    def _start_next(self) -> None:
        if self._underway is not None or not self._agreed:
            return
        layers = self._agreed.pop(0)
        self._underway = Underway(
            self._decided,
            self._trainee.exchanging,
            layers,
            self._ring(layers),
            self._loop.clock.now_ns(),
        )
        self._decided += 1
        self._pump(0)

    def _ring(self, layers: tuple[int, ...]) -> RingTransfer:
        sockets = (self._peers.next, self._peers.last)
        rank, total_byte = self._settings.rank, sum(self._bytes[layer] for layer in layers)
        if self._settings.check:
            numbers = sample_numbers(max(1, total_byte // 4), rank + 1)
            return NumberTransfer(numbers, rank, self._workers, *sockets)
        return RingTransfer(total_byte, rank, self._workers, *sockets)

    def _pump(self, events: int) -> None:
        underway = self._underway
        if underway is None:
            return
        underway.ring.pump_in()
        underway.ring.pump_out()
        if underway.ring.done:
            self._watch(False, False)
            self._transfer_done(underway)
        else:
            self._watch(underway.ring.can_receive, underway.ring.can_send)

    def _watch(self, receive: bool, send: bool) -> None:
        """Ask for readiness only where it would lead to something."""
        if (receive, send) == self._watched:
            return
        self._watched = (receive, send)
        self._loop.watch(self._peers.last.fileno(), READ if receive else 0, self._pump)
        self._loop.watch(self._peers.next.fileno(), WRITE if send else 0, self._pump)

    def _transfer_done(self, done: Underway) -> None:
        now_ns = self._loop.clock.now_ns()
        if isinstance(done.ring, NumberTransfer):
            check_sum(done.ring.numbers, self._workers)
        self._unneeded.append((done, now_ns, max(self._ready_ns[layer] for layer in done.layers)))
        self._underway = None
        waited = self._trainee.running is None
        self._trainee.gradients_arrived(done.layers, now_ns)
        if waited:
            self._await_compute()
            self._write_iterations()
        self._start_next()
        self._decide()

    # Records

    def _write_iterations(self) -> None:
        for row in self._trainee.finished:
            self.iterations += 1
            self._journal.write(
                "iterations",
                self._settings.job,
                self._settings.rank,
                row.iteration,
                row.start_ns,
                row.end_ns,
                row.compute_ns,
                row.wait_ns,
            )
        self._trainee.finished.clear()

    def _write_transfers(self) -> None:
        wanted_ns = self._trainee.wanted_ns
        for done, end_ns, ready_ns in self._unneeded:
            needs = [wanted_ns[layer] for layer in done.layers if layer in wanted_ns]
            self._journal.write(
                "transfers",
                self._settings.job,
                self._settings.rank,
                done.iteration,
                done.number,
                min(done.layers),
                len(done.layers),
                sum(self._bytes[at] for at in done.layers),
                self._settings.priority,
                ready_ns,
                done.start_ns,
                end_ns,
                min(needs) if needs else None,
            )
        self._unneeded.clear()
