"""A parameter-server job whose gradients are summed on their way to the servers (MLNet).

Pushes and pulls are collectives of workers and servers, numbered in turn: group by group of layers,
2n is the push and 2n + 1 the pull. A server answers when all of its part is there. Every group is
cut evenly over all servers. Training begins with the model at every worker.
"""

from collections.abc import Callable
from functools import partial

from policies.steering import Steering
from workloads.job_plan import JobPlan
from workloads.rank import Rank
from workloads.rank_records import Exchanged, Sink
from workloads.server import ParameterServer
from workloads.world import Message, World


class Lane:
    """Collectives of one direction, one after another, as a world without lists wants them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []

    def play(self, number: int, byte: int, done: Callable[[], None]) -> None:
        self._waiting.append((number, byte, done))
        if len(self._waiting) == 1:
            self._play_first()

    def _play_first(self) -> None:
        number, byte, _ = self._waiting[0]
        self._world.play(number, byte, self._first_done)

    def _first_done(self) -> None:
        _, _, done = self._waiting.pop(0)
        if self._waiting:
            self._play_first()
        done()


def push_byte(plan: JobPlan, group: tuple[int, ...]) -> int:
    return sum(plan.gradient_bytes[layer] for layer in group)


def pull_byte(plan: JobPlan, group: tuple[int, ...]) -> int:
    return sum(plan.layer_bytes[layer] for layer in group)


class ReducedWorker(Rank):
    def __init__(
        self,
        plan: JobPlan,
        number: int,
        world: World,
        sink: Sink,
        steering: Callable[[int], Steering] | None = None,
    ) -> None:
        super().__init__(plan, number, world, sink, steering=steering)
        self._pushes, self._pulls = Lane(world), Lane(world)
        self._begun = 0
        self._underway: list[tuple[int, ...]] = []
        self._last_push = (0, 0)  # what was under way then, and when: what the rule learns from

    def change_band(self, band: str) -> None:
        """Servers answer all workers alike: in the band of the first. So do hosts that sum."""
        super().change_band(band)
        if self.number == 0:
            for other in range(self.plan.workers, self.plan.ranks):
                self._world.tell(other, self.priority)

    def underway(self) -> tuple[int, ...]:
        return tuple(layer for group in self._underway for layer in group)

    def left_byte(self) -> int:
        return self._world.left_byte() if self._underway else 0

    def message_arrived(self, message: Message) -> None:
        raise NotImplementedError("bytes belong to the pushes and pulls")

    def exchange(self, layers: tuple[int, ...]) -> None:
        left_byte = self.left_byte()
        number, iteration = self._begun, self._trainee.exchanging
        self._begun += 1
        self._underway.append(layers)
        ready_ns = self._world.now_ns()
        byte = push_byte(self.plan, layers)
        if self._steering is not None:
            self._last_push = left_byte + byte, ready_ns
            self.steer(left_byte + byte)
        record = partial(
            Exchanged, number, iteration, layers, byte, self.priority, ready_ns, ready_ns
        )
        self._pushes.play(
            2 * number,
            byte,
            lambda: self._pulls.play(
                2 * number + 1, pull_byte(self.plan, layers), lambda: self._pulled(layers, record)
            ),
        )

    def _pulled(self, layers: tuple[int, ...], record: Callable[[int], Exchanged]) -> None:
        now_ns = self._world.now_ns()
        self._underway.remove(layers)
        self.exchanged([record(now_ns)], layers, now_ns)
        if self._steering is not None and not self._underway:
            byte, pushed_ns = self._last_push
            self._steering.learn(byte, now_ns - pushed_ns)
            self.steer(0)


class Rounds:
    """Of a rank that computes nothing: its part of every push, and of the pull that answers it."""

    def __init__(self, plan: JobPlan, world: World) -> None:
        self._plan = plan
        self._pushes, self._pulls = Lane(world), Lane(world)
        self._await(0)

    def _await(self, number: int) -> None:
        groups = self._plan.pushed_groups
        group = groups[number % len(groups)]

        def answer() -> None:
            self._pulls.play(2 * number + 1, pull_byte(self._plan, group), lambda: None)
            self._await(number + 1)

        self._pushes.play(2 * number, push_byte(self._plan, group), answer)


class SummingHost:
    """Sums for its rack, and hands on what comes back: a rank with no gradient and no model."""

    def __init__(self, plan: JobPlan, number: int, world: World) -> None:
        self.plan = plan
        self.number = number
        self._world = world
        self._rounds = Rounds(plan, world)

    def told(self, source: int, numbers: tuple[int, ...]) -> None:
        [priority] = numbers
        self._world.change_band(self.plan.bands[priority])

    def message_arrived(self, message: Message) -> None:
        raise NotImplementedError("bytes belong to the pushes and pulls")


class SummingServer(ParameterServer):
    """Gets sums, and answers each with the model, once for all below it."""

    def __init__(self, plan: JobPlan, number: int, world: World, sink: Sink) -> None:
        super().__init__(plan, number, world, sink)
        self._feeds = plan.aggregating.fed_by(number - plan.workers)
        self._rounds = Rounds(plan, world)

    def remaining_byte(self) -> int:
        return sum(self._world.unsent_byte(rank) for rank in self._feeds)

    def told(self, source: int, numbers: tuple[int, ...]) -> None:
        [priority] = numbers
        self._world.change_band(self.plan.bands[priority])

    def message_arrived(self, message: Message) -> None:
        raise NotImplementedError("bytes belong to the pushes and pulls")
