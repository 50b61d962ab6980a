"""A server and a worker of a parameter-server job, apart from how their bytes travel.

They drive the state machines of `parameter_server.py` and write down what happened. The live tasks
let bytes travel over TCP (`ps_live.py`); an engine without packets can calculate how.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from workloads.member import Journal
from workloads.parameter_server import Pupil, Push, Server, Stretch
from workloads.profiles import Layer
from workloads.training import Compute


class ServerMember(ABC):
    def __init__(
        self,
        job: str,
        shard: int,
        workers: int,
        shard_byte: int,
        staleness: int | None,
        journal: Journal,
    ) -> None:
        self._job = job
        self._shard = shard
        self._journal = journal
        self._server = Server(workers, shard_byte, staleness)

    @abstractmethod
    def send_model(self, worker: int) -> None:
        """Begin to send this server's part of the model to a worker."""

    def due_byte(self, worker: int) -> int:
        """How long the next message of a worker is."""
        return self._server.due_byte(worker)

    def arrived(self, worker: int, now_ns: int) -> None:
        """A worker's message is here, whole: answer everybody who has been waiting for it."""
        for released in self._server.arrived(worker, now_ns):
            self.send_model(released)
        for passage in self._server.passages:
            self._journal.write(
                "barriers",
                self._job,
                self._shard,
                passage.iteration,
                passage.worker,
                passage.enter_ns,
                passage.leave_ns,
            )
        self._server.passages.clear()


class WorkerMember(ABC):
    def __init__(
        self,
        job: str,
        rank: int,
        layers: Sequence[Layer],
        servers: int,
        *,
        fusion_byte: int,
        steps: int | None,
        priority: int,
        journal: Journal,
    ) -> None:
        self._job = job
        self._rank = rank
        self._priority = priority
        self._journal = journal
        self._pupil = Pupil(layers, servers, fusion_byte, steps)
        self._pushed: list[tuple[Compute, Stretch]] = []  # of this iteration
        self.late_ns: list[int] = []

    # What a member needs of the world

    @abstractmethod
    def now_ns(self) -> int: ...

    @abstractmethod
    def at(self, time_ns: int, callback: Callable[[], None]) -> None: ...

    @abstractmethod
    def push(self, push: Push) -> None:
        """Send so many bytes to a server, after those that are on their way."""

    # What it does

    @property
    def done(self) -> bool:
        """All its steps are made."""
        return self._pupil.done

    def begin(self) -> None:
        for push in self._pupil.start():
            self.push(push)

    def model_arrived(self, shard: int) -> None:
        """A server's part of the model is here, whole."""
        waited = self._pupil.running is None
        self._pupil.model_arrived(shard, self.now_ns())
        if self._pupil.finished:
            self._write_iteration()
        if waited:
            self._await_compute()

    def _await_compute(self) -> None:
        running = self._pupil.running
        if running is not None:
            self.at(running.end_ns, partial(self._compute_done, running))

    def _compute_done(self, compute: Compute) -> None:
        stretch = self._pupil.stretch
        late_ns = self.now_ns() - compute.end_ns
        self.late_ns.append(late_ns)
        self._journal.write(
            "computes",
            self._job,
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
            self.push(push)

    def _write_iteration(self) -> None:
        """An iteration is over: the model of the next one is here."""
        [row] = self._pupil.finished
        self._pupil.finished.clear()
        self._journal.write(
            "iterations",
            self._job,
            self._rank,
            row.iteration,
            row.start_ns,
            row.end_ns,
            row.compute_ns,
            row.wait_ns,
        )
        needed_ns = row.start_ns + row.compute_ns
        for number, (compute, stretch) in enumerate(self._pushed):
            self._journal.write(
                "transfers",
                self._job,
                self._rank,
                row.iteration,
                row.iteration * len(self._pushed) + number,
                stretch.first_layer,
                stretch.layers,
                stretch.bytes,
                self._priority,
                compute.end_ns,
                compute.end_ns,
                row.end_ns,
                needed_ns,
            )
        self._pushed.clear()
