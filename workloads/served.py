"""A worker of a parameter-server job: asks for the model, computes, pushes, waits for the model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from policies.steering import Steering
from workloads.compute import BACKWARD, Stretch
from workloads.counting import Lessons
from workloads.job_plan import JobPlan
from workloads.rank import Rank
from workloads.rank_records import Exchanged, Sink
from workloads.server import REQUEST_BYTE
from workloads.world import Message, World


@dataclass
class Pushed:
    """A group of layers whose gradients are on their way to the servers."""

    layers: tuple[int, ...]
    byte: int
    ready_ns: int
    priority: int = 0


class ServersWorker(Rank):
    """A worker that has parameter servers."""

    @cached_property
    def _servers(self) -> range:
        return range(self.plan.workers, self.plan.ranks)

    def change_band(self, band: str) -> None:
        """The servers hear of it, and answer in the same band."""
        super().change_band(band)
        for server in self._servers:
            self._world.tell(server, self.priority)


class ServedWorker(ServersWorker):
    def __init__(
        self,
        plan: JobPlan,
        number: int,
        world: World,
        sink: Sink,
        steering: Callable[[int], Steering] | None = None,
    ) -> None:
        every = range(len(plan.layers))
        super().__init__(plan, number, world, sink, missing=every, steering=steering)
        groups = [stretch for stretch in plan.stretches if stretch.phase == BACKWARD]
        self._pushes = {group.gives: pushes(plan, group) for group in groups}
        self._sent: list[Pushed] = []  # of this iteration
        self._awaited = set(self._servers)  # those whose part of the model is not here yet
        self._sent_byte = 0  # what was under way at the last push: what the rule learns from
        self._lessons = Lessons(plan, number) if plan.check else None

    def begin(self) -> None:
        super().begin()
        for server in self._servers:
            self._world.send(server, REQUEST_BYTE)

    def underway(self) -> tuple[int, ...]:
        return tuple(layer for pushed in self._sent for layer in pushed.layers)

    def left_byte(self) -> int:
        """What the servers have not got, and what is not back; each byte goes there and back."""
        unsent = sum(self._world.unsent_byte(server) for server in self._servers)
        sent = sum(self.plan.layer_bytes[layer] for layer in self.underway())
        return (unsent + sent * len(self._awaited) // len(self._servers)) // 2

    def exchange(self, layers: tuple[int, ...]) -> None:
        messages = self._pushes[layers]
        byte = sum(byte for _, byte in messages)
        self._sent.append(Pushed(layers, byte, self._world.now_ns()))
        if self._steering is not None:
            self._sent_byte = self.left_byte() + byte // 2
            self.steer(self._sent_byte)
        self._sent[-1].priority = self.priority
        for server, byte in messages:
            content = self._lessons.next_bytes(server, byte) if self._lessons else None
            self._world.send(server, byte, content=content)

    def message_arrived(self, message: Message) -> None:
        """A server's part of the model is here; with the last one, the next iteration begins."""
        if self._lessons is not None:
            self._lessons.learn(message)
        self._awaited.discard(message.source)
        if self._awaited:
            return
        self._awaited = set(self._servers)
        now_ns = self._world.now_ns()
        if not self._sent:
            self.arrived(range(len(self.plan.layers)), now_ns)  # the first model
            return
        pushed_ns = self._sent[-1].ready_ns
        self.exchanged(self._exchanged(now_ns), range(len(self.plan.layers)), now_ns)
        if self._steering is not None:
            self._steering.learn(self._sent_byte, now_ns - pushed_ns)
            self.steer(0)

    def _exchanged(self, now_ns: int) -> list[Exchanged]:
        iteration = self._trainee.exchanging
        found = [
            Exchanged(
                number=iteration * len(self._pushes) + at,
                iteration=iteration,
                layers=pushed.layers,
                byte=pushed.byte,
                priority=pushed.priority,
                ready_ns=pushed.ready_ns,
                start_ns=pushed.ready_ns,
                end_ns=now_ns,
            )
            for at, pushed in enumerate(self._sent)
        ]
        self._sent.clear()
        return found


def pushes(plan: JobPlan, stretch: Stretch) -> list[tuple[int, int]]:
    """(server, bytes) of what goes where when a group of layers is ready."""
    first, last = stretch.first_layer, stretch.first_layer + stretch.layers
    start_byte = sum(plan.gradient_bytes[:first])
    end_byte = start_byte + sum(plan.gradient_bytes[first:last])
    return [
        (plan.workers + shard, overlap)
        for shard, (start, length) in enumerate(plan.gradient_shards)
        if (overlap := min(end_byte, start + length) - max(start_byte, start)) > 0
    ]
