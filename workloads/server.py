"""A parameter server: a rank that computes nothing. Decides who gets its part of the model when.

All at once when the last gradient is there (synchronous), each at once (asynchronous), or as soon
as nobody is too far behind (bounded staleness).
"""

from typing import NamedTuple

from workloads.counting import ServerNumbers
from workloads.job_plan import JobPlan
from workloads.rank_records import RankRecords, Sink
from workloads.world import Message, World

REQUEST_BYTE = 64  # what a worker sends to ask for the first model, or for a part of one


class Passage(NamedTuple):
    """One worker's way through one barrier: its gradient was there, and it got the next model."""

    iteration: int
    worker: int
    enter_ns: int
    leave_ns: int


class Gate:
    """Pure: who is let through when a gradient has arrived.

    A worker that is `stale` steps ahead of the slowest waits for it: 0 is synchronous training,
    None waits for nobody. `by_part`: one of many, so that who passes it is not written down, and
    everybody has the first model already.
    """

    def __init__(self, workers: int, stale: int | None, *, by_part: bool = False) -> None:
        self._stale = stale
        self._noted = not by_part
        # made by each; asking for the first model makes it 0
        self._steps = [0 if by_part else -1] * workers
        self._slowest = self._steps[0]
        self._as_slow = workers  # that have made no more than the slowest
        self._waiting: dict[int, int] = {}  # worker -> since when, in the order of arrival
        self.passages: list[Passage] = []

    def has_asked(self, worker: int) -> bool:
        return self._steps[worker] >= 0

    def arrived(self, worker: int, now_ns: int) -> list[int]:
        """A request, or a whole gradient, is here. Returns who is sent the model now."""
        assert worker not in self._waiting, "a worker pushes again only after its next model"
        self._as_slow -= self._steps[worker] == self._slowest
        self._steps[worker] += 1
        self._waiting[worker] = now_ns
        looked_at = [worker]  # others wait on unless the slowest has gone on
        if not self._as_slow:
            self._slowest = min(self._steps)
            self._as_slow = self._steps.count(self._slowest)
            looked_at = list(self._waiting)
        released = [one for one in looked_at if self._may_go(one)]
        for waiting in released:
            enter_ns = self._waiting.pop(waiting)
            if self._noted and self._steps[waiting] > 0:
                self.passages.append(Passage(self._steps[waiting] - 1, waiting, enter_ns, now_ns))
        return released

    def _may_go(self, worker: int) -> bool:
        return self._stale is None or self._steps[worker] <= self._slowest + self._stale


class ParameterServer:
    """One shard of a job's model."""

    def __init__(self, plan: JobPlan, number: int, world: World, sink: Sink) -> None:
        self.plan = plan
        self.number = number
        self._world = world
        shard = number - plan.workers
        self._shard_byte = plan.shards[shard][1]
        self._gradient_byte = plan.gradient_shards[shard][1]
        self._records = RankRecords(sink, plan.name, shard)
        self._gate = Gate(plan.workers, plan.staleness)
        self._got_byte = [0] * plan.workers  # of the gradient that is arriving
        self._numbers = ServerNumbers(plan, shard) if plan.check else None

    def remaining_byte(self) -> int:
        """What the workers have not got yet of what they are being sent."""
        return sum(self._world.unsent_byte(worker) for worker in range(self.plan.workers))

    def message_arrived(self, message: Message) -> None:
        """A request, or a piece of a gradient."""
        worker, asked = message.source, self._gate.has_asked(message.source)
        if self._numbers is not None and asked:
            self._numbers.take(message)
        self._got_byte[worker] += message.byte
        due_byte = self._gradient_byte if asked else REQUEST_BYTE
        if self._got_byte[worker] >= due_byte:
            self._got_byte[worker] -= due_byte
            self._gradient_arrived(worker)

    def told(self, source: int, numbers: tuple[int, ...]) -> None:
        """A worker has changed its band: it is answered in the same, from now on."""
        [priority] = numbers
        self._world.change_band(self.plan.bands[priority], to=source)

    def _gradient_arrived(self, worker: int) -> None:
        content = self._numbers
        for released in self._gate.arrived(worker, self._world.now_ns()):
            model = content.model_bytes() if content else None
            self._world.send(released, self._shard_byte, content=model)
        for passage in self._gate.passages:
            self._records.barrier(
                self.plan.first_iteration + passage.iteration,
                passage.worker,
                passage.enter_ns,
                passage.leave_ns,
            )
        self._gate.passages.clear()
