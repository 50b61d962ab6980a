"""A worker that sends its gradients to parameter servers layer by layer, or in slices of layers.

What goes next is the transfer policy's. A forward pass waits for the new values of its own layers,
and with a barrier for all. Training begins with the model at every worker. One that has forward
passes alone sends no gradients, and asks for each part instead.
"""

from collections.abc import Callable
from functools import partial

from policies.steering import Steering
from policies.transfer import PartQueue, TensorPart
from policies.transfer.policy import MOST_BYTE
from workloads.job_plan import JobPlan
from workloads.rank_records import Exchanged, Sink
from workloads.served import ServersWorker
from workloads.server import REQUEST_BYTE
from workloads.world import Message, World


class PartedWorker(ServersWorker):
    def __init__(
        self,
        plan: JobPlan,
        number: int,
        world: World,
        sink: Sink,
        steering: Callable[[int], Steering] | None = None,
    ) -> None:
        super().__init__(plan, number, world, sink, steering=steering)
        policy = plan.transfer_policy
        self._held = policy.holds_pushes
        self._until_answered = policy.until_answered
        credit_byte = policy.credit_byte if self._held else MOST_BYTE
        # One for all servers, or one for each
        self._queues = [
            PartQueue(credit_byte, overtakes=self._until_answered)
            for _ in range(plan.servers if policy.lanes else 1)
        ]
        self._pushing = False
        self._starts_ns: dict[int, int] = {}  # parts on their way
        self._parts_left = [len(parts) for parts in plan.parts_of]  # of each layer
        self._waiting_byte = 0  # not back yet
        self._last_push = (0, 0)  # what was not back then, and when: what the rule learns from

    def underway(self) -> tuple[int, ...]:
        sizes = self.plan.transfer_parts
        return tuple({layer for number in self._starts_ns for layer in sizes[number].layers})

    def left_byte(self) -> int:
        """Each byte goes there and back, or only back."""
        unsent = sum(self._world.unsent_byte(server) for server in self._servers)
        return (unsent + self._waiting_byte) // (1 if self.plan.reads else 2)

    def exchange(self, layers: tuple[int, ...]) -> None:
        ranks = self.plan.ranks_in(self.number, self._trainee.exchanging) if self._held else None
        for layer in layers:
            for part in self.plan.parts_of[layer]:
                self._queue_of(part).add([part], ranks)
            self._waiting_byte += self.plan.layer_bytes[layer]
        if self._steering is not None:
            self._last_push = self.left_byte(), self._world.now_ns()
            self.steer(self._last_push[0])
        self._push()
        if 0 in layers and self.plan.asks:  # the backward pass is over
            for server in self._servers:
                self._world.send(server, REQUEST_BYTE, tag=self.plan.question)

    def _push(self) -> None:
        """Send what may be sent; a world may say at once that it is out of our hands."""
        if self._pushing:
            return
        self._pushing = True
        now_ns = self._world.now_ns()
        for queue in self._queues:
            while (part := queue.take()) is not None:
                self._starts_ns[part.number] = now_ns
                by_kernel = self._held and not self._until_answered
                sent = partial(self._given_back, part) if by_kernel else None
                server = self.plan.workers + part.server
                byte = REQUEST_BYTE if self.plan.reads else part.byte
                self._world.send(server, byte, tag=part.number, sent=sent)
        self._pushing = False

    def _given_back(self, part: TensorPart) -> None:
        self._queue_of(part).give_back([part])
        self._push()

    def _queue_of(self, part: TensorPart) -> PartQueue:
        return self._queues[part.server % len(self._queues)]

    def message_arrived(self, message: Message) -> None:
        """New values of a part are here."""
        part = self.plan.transfer_parts[message.tag]
        now_ns = self._world.now_ns()
        [layer] = part.layers
        self._waiting_byte -= part.byte
        iteration = self._trainee.exchanging
        record = Exchanged(
            iteration * len(self.plan.transfer_parts) + part.number,
            iteration,
            part.layers,
            part.byte,
            self.priority,
            self._ready_ns[layer],
            self._starts_ns.pop(part.number),
            now_ns,
        )
        self._parts_left[layer] -= 1
        if self._parts_left[layer]:
            self.noted(record)
        else:
            self._parts_left[layer] = len(self.plan.parts_of[layer])
            self.exchanged([record], part.layers, now_ns)
        if self._until_answered or not self._held:
            self._given_back(part)
        if self._steering is not None and not self._waiting_byte:
            byte, pushed_ns = self._last_push
            self._steering.learn(byte, now_ns - pushed_ns)
            self.steer(0)
