"""A parameter server that answers part by part: when a part's gradients are all there, it updates
it, one after another, and sends the new values to those who wait for them.
"""

from collections import defaultdict
from functools import partial

from policies.transfer import Answers, PartQueue, TensorPart
from workloads.job_plan import JobPlan
from workloads.rank_records import Sink
from workloads.server import Gate, ParameterServer
from workloads.world import Message, World

ONE_BY_ONE_BYTE = 1


class PartServer(ParameterServer):
    def __init__(self, plan: JobPlan, number: int, world: World, sink: Sink) -> None:
        super().__init__(plan, number, world, sink)
        shard = number - plan.workers
        own = [part for part in plan.transfer_parts if part.server == shard]
        policy = plan.transfer_policy
        self._own = own
        self._question = plan.question
        self._gates = {
            part.number: Gate(plan.workers, plan.staleness, by_part=True) for part in own
        }
        self._updates = PartQueue(ONE_BY_ONE_BYTE)
        self._by_rank = policy.holds_pushes
        self._released: dict[int, list[int]] = defaultdict(list)  # by part: who waits for it
        kind = {
            Answers.AS_UPDATED: Outbox,
            Answers.BY_RANK: RankedOutbox,
            Answers.GATED: GatedOutbox,
        }[policy.answers]
        self._outboxes = [kind(plan, world, worker, own) for worker in range(plan.workers)]
        self._counts = [Counts(plan.first_iteration) for _ in range(plan.workers)]

    def message_arrived(self, message: Message) -> None:
        """A worker's gradient of a part; when nobody is waited for any more, it is updated."""
        worker, number = message.source, message.tag
        if number == self._question:
            self._outboxes[worker].asked()
            return
        now_ns = self._world.now_ns()
        counts = self._counts[worker]
        counts.pushed += 1
        if counts.pushed == len(self._own):
            counts.pushed, counts.enter_ns = 0, now_ns
        released = self._gates[number].arrived(worker, now_ns)
        if not released:
            return
        part = self.plan.transfer_parts[number]
        if self.plan.update_byte_s is None:
            self._answer(part, released)
            return
        self._released[number] += released
        ranks = self.plan.ranks_in(worker, counts.iteration) if self._by_rank else None
        self._updates.add([part], ranks)
        self._update_next()

    def _update_next(self) -> None:
        part = self._updates.take()
        if part is not None:
            assert self.plan.update_byte_s is not None
            end_ns = self._world.now_ns() + part.byte * 10**9 // self.plan.update_byte_s
            self._world.at(end_ns, partial(self._updated, part))

    def _updated(self, part: TensorPart) -> None:
        self._updates.give_back([part])
        self._answer(part, self._released.pop(part.number, []))
        self._update_next()

    def _answer(self, part: TensorPart, workers: list[int]) -> None:
        now_ns = self._world.now_ns()
        for worker in workers:
            self._outboxes[worker].add(part)
            counts = self._counts[worker]
            counts.answered += 1
            if counts.answered == len(self._own):
                self._records.barrier(counts.iteration, worker, counts.enter_ns, now_ns)
                counts.answered = 0
                counts.iteration += 1


class Counts:
    """How far a worker's iteration is at this server."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.pushed = 0
        self.answered = 0
        self.enter_ns = 0  # when its last gradient was here


class Outbox:
    """New values on their way to a worker, sent as they are updated."""

    def __init__(self, plan: JobPlan, world: World, worker: int, own: list[TensorPart]) -> None:
        self._plan = plan
        self._world = world
        self._worker = worker
        self._own = own

    def add(self, part: TensorPart) -> None:
        self._world.send(self._worker, part.byte, tag=part.number)

    def asked(self) -> None:
        raise NotImplementedError("nobody asks for what comes by itself")


class RankedOutbox(Outbox):
    """The best of those that are updated, one handed over at a time."""

    def __init__(self, plan: JobPlan, world: World, worker: int, own: list[TensorPart]) -> None:
        super().__init__(plan, world, worker, own)
        self._queue = PartQueue(ONE_BY_ONE_BYTE)
        self._added = plan.first_iteration * len(own)
        self._sending = False

    def add(self, part: TensorPart) -> None:
        ranks = self._plan.ranks_in(self._worker, self._added // len(self._own))
        self._added += 1
        self._queue.add([part], ranks)
        self._send()

    def _send(self) -> None:
        if self._sending:
            return
        self._sending = True
        while (part := self._queue.take()) is not None:
            sent = partial(self._sent, part)
            self._world.send(self._worker, part.byte, tag=part.number, sent=sent)
        self._sending = False

    def _sent(self, part: TensorPart) -> None:
        self._queue.give_back([part])
        self._send()


class GatedOutbox(Outbox):
    """Each after all that rank before it, as TicTac's gate at the sender has it.

    As in TensorFlow, an iteration begins with its reads: none is answered before the worker asks.
    """

    def __init__(self, plan: JobPlan, world: World, worker: int, own: list[TensorPart]) -> None:
        super().__init__(plan, world, worker, own)
        self._iteration = plan.first_iteration
        self._asked = (
            plan.first_iteration
        )  # iterations; where there are no gradients, each part was asked for
        self._here: dict[int, TensorPart] = {}
        self._order: list[TensorPart] = []  # of those not sent yet, the next one last

    def asked(self) -> None:
        self._asked += 1
        self._send()

    def add(self, part: TensorPart) -> None:
        self._here[part.number] = part
        self._send()

    def _send(self) -> None:
        if not self._order:
            if not self._here or (self._asked == self._iteration and not self._plan.reads):
                return
            ranks = self._plan.ranks_in(self._worker, self._iteration)
            assert ranks is not None
            key = {part.number: (ranks[part.layers[0]], part.number) for part in self._own}
            self._order = sorted(self._own, key=lambda one: key[one.number], reverse=True)
            self._iteration += 1
        while self._order and self._order[-1].number in self._here:
            one = self._here.pop(self._order.pop().number)
            self._world.send(self._worker, one.byte, tag=one.number)
