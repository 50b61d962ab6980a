"""The native training worker: one process a host, no torch.

Compute is a timer from the profile; gradients travel for real, in a ring over TCP. Rank 0 also
coordinates: workers tell it which gradients they have, it tells them what to send next.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import policies
from policies.base import tos_of
from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import READ, WRITE, Clock, Loop
from workloads.member import Member, Transfer
from workloads.profiles import Layer
from workloads.ring import NumberTransfer, RingTransfer, check_sum, sample_numbers
from workloads.sockets import NumberReader, accept, connect, listener, send_numbers
from workloads.task import heartbeat, lateness, sleep_until

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
    steered_by: str | None = None  # the policy that changes this worker's band during the run
    source_port: int = 0  # of the ring; the coordinator's is the next one; 0: the kernel's choice
    start_ns: int = 0
    steps: int | None = None  # then it rests


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


def mark(sockets: Sequence[socket.socket], band: str) -> None:
    for sock in sockets:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos_of(band))


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
        ring, star = (
            (addresses[rank], settings.source_port + at) if settings.source_port else None
            for at in (0, 1)
        )
        self.next = connect(addresses[(rank + 1) % workers], settings.port, tos, ring)
        self.last = accept(ring_door)
        # Rank 0 is connected to all others, the others to rank 0.
        self.star: list[socket.socket]
        if star_door is None:
            self.star = [connect(addresses[0], settings.port + 1, tos, star)]
        else:
            self.star = [accept(star_door) for _ in range(workers - 1)]
        for sock in (self.next, self.last):
            sock.setblocking(False)


class Worker(Member):
    def __init__(self, settings: Settings, peers: Peers, loop: Loop, journal: Journal) -> None:
        name = settings.steered_by
        self._policy = policies.available()[name] if name is not None else None
        super().__init__(
            settings.job,
            settings.rank,
            len(settings.addresses),
            [Layer(*layer) for layer in settings.layers],
            fusion_byte=settings.fusion_byte,
            order=settings.order,
            barrier=settings.barrier,
            priority=settings.priority,
            journal=journal,
            steering=self._policy.steering if self._policy else None,
            start_ns=settings.start_ns,
            steps=settings.steps,
        )
        self._settings = settings
        self._peers = peers
        self._loop = loop
        self._ring: RingTransfer | None = None
        self._watched = (False, False)

    def run(self, control: Control) -> None:
        loop = self._loop
        if self._policy is not None:
            mark(self._peers.star, self._policy.flows)  # a few bytes, that all wait for
        for sock in self._peers.star:
            reader = NumberReader(sock)
            sock.setblocking(False)
            loop.watch(sock.fileno(), READ, partial(self._hear, reader))
        heartbeat(loop, control)
        loop.at(self._settings.start_ns, self.begin)
        loop.at(self._settings.duration_ns, loop.stop)
        loop.run()
        self.write_transfers()

    def now_ns(self) -> int:
        return self._loop.clock.now_ns()

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        self._loop.at(time_ns, callback)

    # Agreement

    def tell_rank_0(self, layer: int) -> None:
        send_numbers(self._peers.star[0], layer)

    def tell_others(self, layers: Sequence[int]) -> None:
        for sock in self._peers.star:
            send_numbers(sock, *layers)

    def _hear(self, reader: NumberReader, events: int) -> None:
        messages = reader.read()
        if self.rank == 0:
            self.hear_ready(*(layer for (layer,) in messages))
        else:
            self.hear_agreed(*messages)

    # Transfers

    def send(self, transfer: Transfer) -> None:
        sockets = (self._peers.next, self._peers.last)
        if self._settings.check:
            numbers = sample_numbers(max(1, transfer.byte // 4), self.rank + 1)
            self._ring = NumberTransfer(numbers, self.rank, self.workers, *sockets)
        else:
            self._ring = RingTransfer(transfer.byte, self.rank, self.workers, *sockets)
        self._pump(0)

    def left_byte(self) -> int:
        return self._ring.left_byte if self._ring is not None else 0

    def change_band(self, band: str) -> None:
        """The same sockets: the next packet of each carries the new ToS."""
        assert self._policy is not None
        self.priority = self._policy.bands.index(band)
        mark((self._peers.next, self._peers.last), band)

    def _pump(self, events: int) -> None:
        ring = self._ring
        if ring is None:
            return
        ring.pump_in()
        ring.pump_out()
        if ring.done:
            self._watch(False, False)
            if isinstance(ring, NumberTransfer):
                check_sum(ring.numbers, self.workers)
            self._ring = None
            self.transfer_done()
        else:
            self._watch(ring.can_receive, ring.can_send)

    def _watch(self, receive: bool, send: bool) -> None:
        """Ask for readiness only where it would lead to something."""
        if (receive, send) == self._watched:
            return
        self._watched = (receive, send)
        self._loop.watch(self._peers.last.fileno(), READ if receive else 0, self._pump)
        self._loop.watch(self._peers.next.fileno(), WRITE if send else 0, self._pump)
