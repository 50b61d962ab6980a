"""A worker that exchanges gradients with the others by a collective, transfer by transfer.

Rank 0 decides what is sent next, as Horovod's does: workers tell it which gradients they have, it
tells them the parts of the next transfer. How much may be on its way at once is the transfer
policy's credit; by default one transfer is.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from policies.steering import Steering
from policies.transfer import PartQueue, TensorPart
from workloads.job_plan import JobPlan
from workloads.rank import Rank
from workloads.rank_records import Exchanged, Sink
from workloads.world import Message, World


class Coordinator:
    """Decides which parts go next: those ready on every worker, in the policy's order, fused."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._room_byte = plan.fusion_byte if plan.transfer_policy.fuses else 0
        self._ready_on = [0] * len(plan.layers)
        self._lacking = [len(part.layers) for part in plan.transfer_parts]  # layers, part by part
        self._rounds = [plan.first_iteration] * len(plan.layers)
        self._queue = PartQueue(plan.transfer_policy.credit_byte)

    def gradient_ready(self, layer: int) -> None:
        """One more worker has this layer's gradient."""
        self._ready_on[layer] += 1
        if self._ready_on[layer] < self._plan.workers:
            return
        self._ready_on[layer] = 0
        ready = []
        for part in self._plan.parts_of[layer]:
            self._lacking[part.number] -= 1
            if not self._lacking[part.number]:
                self._lacking[part.number] = len(part.layers)
                ready.append(part)
        self._queue.add(ready, self._plan.ranks_in(0, self._rounds[layer]))
        self._rounds[layer] += 1

    def next_transfer(self) -> list[TensorPart]:
        """What goes next; empty if nothing is ready everywhere, or no credit is left."""
        first = self._queue.take()
        if first is None:
            return []
        chosen = [first]
        room_byte = self._room_byte - first.byte if first.whole else 0
        while (part := self._queue.take_along(room_byte)) is not None:
            chosen.append(part)
            room_byte -= part.byte
        return chosen

    def transfer_done(self, parts: Sequence[TensorPart]) -> None:
        self._queue.give_back(parts)


class Underway(NamedTuple):
    """A transfer that this worker takes part in now."""

    number: int
    iteration: int
    parts: tuple[TensorPart, ...]
    layers: tuple[int, ...]
    byte: int
    start_ns: int


class AgreedWorker(Rank):
    def __init__(
        self,
        plan: JobPlan,
        number: int,
        world: World,
        sink: Sink,
        steering: Callable[[int], Steering] | None = None,
    ) -> None:
        super().__init__(plan, number, world, sink, steering=steering)
        self._coordinator = Coordinator(plan) if number == 0 else None
        self._agreed: list[tuple[TensorPart, ...]] = []  # decided, not yet begun here
        self._underway: dict[int, Underway] = {}
        self._begun = plan.first_transfer
        self._parts_left = [len(parts) for parts in plan.parts_of]  # of each layer

    @property
    def next_transfer(self) -> int:
        return self._begun

    def underway(self) -> tuple[int, ...]:
        return tuple(layer for one in self._underway.values() for layer in one.layers)

    def left_byte(self) -> int:
        return self._world.left_byte() if self._underway else 0

    def message_arrived(self, message: Message) -> None:
        raise NotImplementedError("bytes among workers belong to their collective")

    def exchange(self, layers: tuple[int, ...]) -> None:
        if self._coordinator is None:
            self._world.tell(0, *layers)
        else:
            self._gradients_ready(layers)

    def told(self, source: int, numbers: tuple[int, ...]) -> None:
        """Rank 0: a worker has these gradients. The others: rank 0 has decided on a transfer."""
        if self._coordinator is not None:
            self._gradients_ready(numbers)
        else:
            parts = self.plan.transfer_parts
            self._agreed.append(tuple(parts[number] for number in numbers))
            self._start_next()

    def _gradients_ready(self, layers: Sequence[int]) -> None:
        assert self._coordinator is not None
        for layer in layers:
            self._coordinator.gradient_ready(layer)
        self._decide()

    def _decide(self) -> None:
        """Rank 0: agree on transfers as long as there is credit."""
        while self._coordinator is not None and (parts := self._coordinator.next_transfer()):
            for other in range(1, self.plan.workers):
                self._world.tell(other, *(part.number for part in parts))
            self._agreed.append(tuple(parts))
            self._start_next()

    def _start_next(self) -> None:
        """Begin what has been agreed on; rank 0 may be ahead, and its credit is everybody's."""
        credit_byte = self.plan.transfer_policy.credit_byte
        while self._agreed and sum(one.byte for one in self._underway.values()) < credit_byte:
            left_byte = self.left_byte()
            one = self._next(self._agreed.pop(0))
            self._underway[one.number] = one
            self._begun += 1
            self.steer(left_byte + one.byte)
            self._world.play(one.number, one.byte, partial(self._transfer_done, one))

    def _next(self, parts: tuple[TensorPart, ...]) -> Underway:
        return Underway(
            number=self._begun,
            iteration=self._trainee.exchanging,
            parts=parts,
            layers=tuple(layer for part in parts for layer in part.layers),
            byte=sum(part.byte for part in parts),
            start_ns=self._world.now_ns(),
        )

    def _transfer_done(self, done: Underway) -> None:
        now_ns = self._world.now_ns()
        ready_ns = max(self._ready_ns[layer] for layer in done.layers)
        del self._underway[done.number]
        record = Exchanged(
            done.number,
            done.iteration,
            done.layers,
            done.byte,
            self.priority,
            ready_ns,
            done.start_ns,
            now_ns,
        )
        self.exchanged([record], self._completed(done.layers), now_ns)
        if self._steering is not None:
            self._steering.learn(done.byte, now_ns - done.start_ns)
        if self._coordinator is not None:
            self._coordinator.transfer_done(done.parts)
        self._start_next()
        self._decide()
        if not self._underway:
            self.steer(0)

    def _completed(self, layers: Sequence[int]) -> list[int]:
        """Those of which this was the last part."""
        found = []
        for layer in layers:
            self._parts_left[layer] -= 1
            if not self._parts_left[layer]:
                self._parts_left[layer] = len(self.plan.parts_of[layer])
                found.append(layer)
        return found
