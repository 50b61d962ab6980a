"""A worker of a ring job, apart from how its bytes travel: compute, agreement, records.

It computes layer by layer, tells rank 0 which gradients it has, takes part in the transfers that
rank 0 decides, and writes down what happened. The native worker lets its bytes travel over TCP,
the fluid engine over a calculation; both are this same member.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from policies.steering import Gradient, Sight, Steering
from workloads.profiles import Layer
from workloads.training import Compute, Coordinator, Outlook, Trainee


class Journal(Protocol):
    def write(self, table: str, *values: str | float | None) -> None: ...


@dataclass(frozen=True)
class Transfer:
    """A transfer that this worker takes part in."""

    number: int
    iteration: int
    layers: tuple[int, ...]
    byte: int
    start_ns: int


class Member(ABC):
    def __init__(
        self,
        job: str,
        rank: int,
        workers: int,
        layers: Sequence[Layer],
        *,
        fusion_byte: int,
        order: str,
        barrier: bool,
        priority: int,
        journal: Journal,
        steering: Callable[[int], Steering] | None = None,
        start_ns: int = 0,
        steps: int | None = None,  # then it rests
    ) -> None:
        self.job = job
        self.rank = rank
        self.workers = workers
        self.priority = priority
        self.start_ns = start_ns
        self._steps = steps
        self.late_ns: list[int] = []
        self.iterations = 0
        self._bytes = [layer.bytes for layer in layers]
        self._trainee = Trainee(layers, barrier)
        self._coordinator = (
            Coordinator(self._bytes, workers, fusion_byte, order) if rank == 0 else None
        )
        self._by_layer = order == "layer"
        self._steering = steering(self._trainee.iteration_ns) if steering else None
        self._band: str | None = None  # that the rule wants, once it has been asked
        self._look_ns: int | None = None
        self._journal = journal
        self._ready_ns: dict[int, int] = {}
        self._agreed: list[tuple[int, ...]] = []  # transfers decided, not yet begun here
        self._underway: Transfer | None = None
        self._decided = 0
        self._unneeded: list[
            tuple[Transfer, int, int, int]
        ] = []  # finished, their need not yet known

    # What a member needs of the world

    @abstractmethod
    def now_ns(self) -> int: ...

    @abstractmethod
    def at(self, time_ns: int, callback: Callable[[], None]) -> None: ...

    @abstractmethod
    def tell_rank_0(self, layer: int) -> None:
        """Say that this layer's gradient is ready here."""

    @abstractmethod
    def tell_others(self, layers: Sequence[int]) -> None:
        """Rank 0: say what is sent next."""

    @abstractmethod
    def send(self, transfer: Transfer) -> None:
        """Take part in a transfer; `transfer_done` is called when it is over here."""

    def left_byte(self) -> int:
        """What is still to arrive here of the transfer under way, in bytes of gradient."""
        raise NotImplementedError

    def change_band(self, band: str) -> None:
        """Send what follows in this band."""
        raise NotImplementedError

    # Compute

    def begin(self) -> None:
        self._trainee.start(self.start_ns)
        self._await_compute()

    def _await_compute(self) -> None:
        running = self._trainee.running
        if running is not None and (self._steps is None or running.iteration < self._steps):
            self.at(running.end_ns, partial(self._compute_done, running))

    def _compute_done(self, compute: Compute) -> None:
        now_ns = self.now_ns()
        late_ns = now_ns - compute.end_ns
        self.late_ns.append(late_ns)
        self._journal.write(
            "computes",
            self.job,
            self.rank,
            compute.iteration,
            compute.phase,
            compute.layer,
            compute.start_ns,
            compute.end_ns,
            late_ns,
        )
        if compute.phase == "backward" and compute.layer == len(self._bytes) - 1:
            self.write_transfers()  # the forward pass is over: every need is known
        layer = self._trainee.compute_done()
        self._await_compute()
        self._write_iterations()
        if layer is not None:
            self._ready_ns[layer] = now_ns
            if self._coordinator is None:
                self.tell_rank_0(layer)
            else:
                self.hear_ready(layer)

    # Agreement

    def hear_ready(self, *layers: int) -> None:
        """Rank 0: one more worker has each of these gradients."""
        assert self._coordinator is not None
        for layer in layers:
            self._coordinator.gradient_ready(layer)
        self._decide()

    def hear_agreed(self, *transfers: tuple[int, ...]) -> None:
        """What rank 0 has decided, transfer by transfer."""
        self._agreed += transfers
        self._start_next()

    def _decide(self) -> None:
        """Rank 0: agree on the next transfer if none is in flight."""
        if self._coordinator is None or self._underway is not None:
            return
        layers = self._coordinator.next_transfer()
        if not layers:
            return
        self.tell_others(layers)
        self.hear_agreed(tuple(layers))

    # Transfers

    def _start_next(self) -> None:
        if self._underway is not None or not self._agreed:
            return
        layers = self._agreed.pop(0)
        total_byte = sum(self._bytes[layer] for layer in layers)
        self._underway = Transfer(
            self._decided, self._trainee.exchanging, layers, total_byte, self.now_ns()
        )
        self._decided += 1
        self.steer(total_byte)
        self.send(self._underway)

    def transfer_done(self) -> None:
        done = self._underway
        assert done is not None
        now_ns = self.now_ns()
        ready_ns = max(self._ready_ns[layer] for layer in done.layers)
        self._unneeded.append((done, now_ns, ready_ns, self.priority))
        self._underway = None
        waited = self._trainee.running is None
        self._trainee.gradients_arrived(done.layers, now_ns)
        if waited:
            self._await_compute()
            self._write_iterations()
        if self._steering is not None:
            self._steering.learn(done.byte, now_ns - done.start_ns)
        self._start_next()
        self._decide()
        if self._underway is None:
            self.steer(0)

    # Bands

    def steer(self, left_byte: int) -> None:
        """Ask the policy's rule for a band, if it has one; so much is left of what is under way."""
        if self._steering is None:
            return
        decision = self._steering.decide(self._sight(left_byte))
        if decision.band != self._band:
            self._band = decision.band
            self.change_band(decision.band)
        if decision.look_ns is not None and decision.look_ns != self._look_ns:
            self.at(decision.look_ns, partial(self._look, decision.look_ns))
        self._look_ns = decision.look_ns

    def _look(self, look_ns: int) -> None:
        if look_ns == self._look_ns:  # it has not changed its mind since
            self._look_ns = None
            self.steer(self.left_byte() if self._underway else 0)

    def _sight(self, left_byte: int) -> Sight:
        now_ns = self.now_ns()
        sent = self._underway.layers if self._underway else ()
        gradients = self._in_order(self._trainee.outlook(now_ns))
        underway = [gradient for gradient in gradients if gradient.layer in sent]
        others = [gradient for gradient in gradients if gradient.layer not in sent]
        return Sight(now_ns, underway, left_byte, others)

    def _in_order(self, outlook: list[Outlook]) -> list[Gradient]:
        made = [Gradient(o.layer, self._bytes[o.layer], o.ready_ns, o.due_ns) for o in outlook]
        # First come, first served: backward passes end with layer 0.
        return made if self._by_layer else made[::-1]

    # Records

    def _write_iterations(self) -> None:
        for row in self._trainee.finished:
            self.iterations += 1
            self._journal.write(
                "iterations",
                self.job,
                self.rank,
                row.iteration,
                row.start_ns,
                row.end_ns,
                row.compute_ns,
                row.wait_ns,
            )
        self._trainee.finished.clear()

    def write_transfers(self) -> None:
        """Write the transfers whose need is known by now, or never will be."""
        wanted_ns = self._trainee.wanted_ns
        for done, end_ns, ready_ns, priority in self._unneeded:
            needs = [wanted_ns[layer] for layer in done.layers if layer in wanted_ns]
            row: list[Any] = [
                self.job,
                self.rank,
                done.iteration,
                done.number,
                min(done.layers),
                len(done.layers),
                done.byte,
                priority,
                ready_ns,
                done.start_ns,
                end_ns,
                min(needs) if needs else None,
            ]
            self._journal.write("transfers", *row)
        self._unneeded.clear()
