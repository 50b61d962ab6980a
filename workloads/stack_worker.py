"""What a worker of a real training stack does besides training. Knows no torch.

A framework blocks where it likes, so a thread of its own, the `Warden`, keeps the protocol of every
task: it shows that the worker lives, ends it when the controller is gone, and closes the records
when the time is over. Training then goes on, unrecorded, until all workers are done: nobody has to
agree on a last iteration, and nobody hangs because another has stopped.
"""

import os
import select
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import Clock
from workloads.task import BEAT_REAL_NS, lateness, sleep_until


@dataclass(frozen=True)
class StackConfig:
    """One worker of one job, as the engine describes it."""

    job: str
    rank: int
    addresses: list[str]
    device: str  # the host's interface
    port: int  # where rank 0 listens, for the others to find each other
    priority: int
    layers: list[tuple[int, int, int]]
    fusion_byte: int
    check: bool
    dilation: float
    duration_ns: int
    journal: str
    steered_by: dict[str, Any] | None = None  # the policy that changes its band, by value
    transfer: dict[str, Any] | None = None  # the transfer policy, by value; None: the stack's own
    rate_bps: int = 10**9  # of a host's link
    seed: int = 0

    @property
    def workers(self) -> int:
        return len(self.addresses)


@dataclass(frozen=True)
class Transfer:
    """One all-reduce of some layers' gradients, or of a part of them."""

    layers: tuple[int, ...]
    bytes: int
    ready_ns: int
    start_ns: int
    end_ns: int
    completes: bool = True  # its layers: no other part of them is left


class RowWriter(Protocol):
    """Where records go: a journal, or a list that is kept."""

    def write(self, table: str, *values: str | float | None) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """The records of one worker. Frameworks call from threads of their own, hence the lock."""

    def __init__(
        self,
        settings: StackConfig,
        rows: RowWriter | None = None,
        first_iteration: int = 0,
        first_transfer: int = 0,
    ) -> None:
        """`rows`: instead of its journal. Of a job that goes on: what it did elsewhere."""
        self._settings = settings
        self._lock = threading.Lock()
        self._rows = Journal(Path(settings.journal)) if rows is None else rows
        self._open = True
        self._iteration = first_iteration
        self._transfers: list[Transfer] = []
        self.numbered = first_transfer
        self._started_ns = 0  # this iteration
        self._told = 0  # of its transfers, those that `exchanges` has told of
        self.priority = settings.priority
        self.late_ns: list[int] = []
        self.iterations = 0
        self.digests: dict[int, str] = {}  # of the parameters after each iteration, in test mode

    def compute(self, phase: str, layer: int, start_ns: int, end_ns: int, late_ns: int) -> None:
        with self._lock:
            if self._open:
                self.late_ns.append(late_ns)
                self._write("computes", self._iteration, phase, layer, start_ns, end_ns, late_ns)

    def transfer(self, done: Transfer) -> None:
        with self._lock:
            self._transfers.append(done)

    def iteration(self, start_ns: int, end_ns: int, compute_ns: int) -> None:
        """An iteration is over, start to start: its transfers are done and the next one begins."""
        with self._lock:
            if self._open and end_ns <= self._settings.duration_ns:
                self._write_transfers(needed_ns=start_ns + compute_ns)
                wait_ns = end_ns - start_ns - compute_ns
                self._write("iterations", self._iteration, start_ns, end_ns, compute_ns, wait_ns)
                self.iterations += 1
            self._transfers.clear()
            self._told = 0
            self._started_ns = end_ns
            self._iteration += 1

    def exchanges(self) -> tuple[int, frozenset[int], list[tuple[int, int]]]:
        """The start of this iteration, its layers that are exchanged, and (bytes, time) of news."""
        with self._lock:
            done = self._transfers
            fresh = [(each.bytes, each.end_ns - each.start_ns) for each in done[self._told :]]
            self._told = len(done)
            whole = (each.layers for each in done if each.completes)
            return self._started_ns, frozenset().union(*whole), fresh

    def close(self) -> None:
        """The time is over: nothing is recorded from here on."""
        with self._lock:
            self._write_transfers(needed_ns=None)
            self._open = False
            self._rows.close()

    def forget_transfers(self) -> None:
        """Those of a pass that does not count."""
        with self._lock:
            self._transfers.clear()

    def _write_transfers(self, needed_ns: int | None) -> None:
        for done in sorted(self._transfers, key=lambda one: one.end_ns):
            if done.end_ns > self._settings.duration_ns:
                continue
            self._write(
                "transfers",
                self._iteration,
                self.numbered,
                min(done.layers),
                len(done.layers),
                done.bytes,
                self.priority,
                done.ready_ns,
                done.start_ns,
                done.end_ns,
                needed_ns,
            )
            self.numbered += 1

    def _write(self, table: str, *values: str | float | None) -> None:
        self._rows.write(table, self._settings.job, self._settings.rank, *values)


class Pacer:
    """The pretended processor: each layer's compute is a sleep until an exact instant.

    Deadlines follow from deadlines, so what the framework itself costs between two layers (or a
    late wake-up) does not add up.
    """

    def __init__(self, settings: StackConfig, recorder: Recorder) -> None:
        self._layers = settings.layers
        self.clock = Clock(0)  # the run's own, once time zero is known
        self._recorder = recorder
        self.due_ns = 0
        self.ready_ns: dict[int, int] = {}  # layer -> when its gradient was made
        self.target = 0.0  # what the weights are drawn to in this iteration, see torch_model

    def work(self, phase: str, layer: int) -> None:
        _, forward_ns, backward_ns = self._layers[layer]
        start_ns = self.due_ns
        self.due_ns += forward_ns if phase == "forward" else backward_ns
        sleep_until(self.clock.real_ns(self.due_ns))
        now_ns = self.clock.now_ns()
        self._recorder.compute(phase, layer, start_ns, self.due_ns, max(0, now_ns - self.due_ns))
        if phase == "backward":
            self.ready_ns[layer] = now_ns


class Looker(Protocol):
    """Who changes the worker's band during the run, see workloads/stack_steering.py."""

    period_ns: int

    def look(self, now_ns: int) -> None: ...


class Warden(threading.Thread):
    def __init__(self, settings: StackConfig, control: Control) -> None:
        super().__init__(name="warden", daemon=True)
        self._settings = settings
        self._control = control
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._clock: Clock | None = None
        self._recorder: Recorder | None = None
        self._agent: Looker | None = None
        self.finished = False

    def say(self, event: str, **details: Any) -> None:
        with self._lock:
            self._control.say(event, **details)

    def hear(self) -> dict[str, Any]:
        """For the training thread, until `go`: from then on the warden listens."""
        return self._control.hear()

    def go(self, clock: Clock, recorder: Recorder, agent: Looker | None = None) -> None:
        self._clock, self._recorder, self._agent = clock, recorder, agent
        self._going.set()

    def run(self) -> None:
        try:
            while not self._going.wait(BEAT_REAL_NS / 1e9):
                self.say("beat", time_ns=0)
            self._watch()
        except OSError:
            os._exit(1)  # the controller is gone

    def _watch(self) -> None:
        assert self._clock is not None
        assert self._recorder is not None
        end_real_ns = self._clock.real_ns(self._settings.duration_ns)
        beat_ns = 0
        while (left_ns := end_real_ns - time.monotonic_ns()) > 0:
            wait_ns = min(left_ns, BEAT_REAL_NS)
            if self._agent is not None:
                wait_ns = min(wait_ns, self._look(self._agent))
            heard, _, _ = select.select([self._control], [], [], wait_ns / 1e9)
            if heard:
                self.leave()
            if self._agent is None or time.monotonic_ns() >= beat_ns:
                self.say("beat", time_ns=max(0, self._clock.now_ns()))
                beat_ns = end_real_ns - left_ns + BEAT_REAL_NS
        self._recorder.close()
        self.finished = True
        self.say(
            "done",
            sleep_late_ns=lateness(self._recorder.late_ns),
            iterations=self._recorder.iterations,
            digests=self._recorder.digests,
        )
        self.leave()

    def _look(self, agent: Looker) -> int:
        """Let the agent look, if the run has begun; returns how long it may rest."""
        assert self._clock is not None
        time_ns = self._clock.now_ns()
        if time_ns >= 0:
            agent.look(time_ns)
        next_ns = self._clock.real_ns((time_ns // agent.period_ns + 1) * agent.period_ns)
        return max(0, next_ns - time.monotonic_ns())

    def leave(self) -> NoReturn:
        """Stay until told to go: a closed socket would look like a death. Then all at once."""
        try:
            self._control.hear()
        except SystemExit:
            os._exit(1)
        os._exit(0)

    def await_the_end(self) -> NoReturn:
        """For the training thread, when its peers are gone because the run is over."""
        while True:
            time.sleep(1)


def layers_of(parameters: Iterable[Any], layer_of: dict[int, int]) -> tuple[int, ...]:
    """The layers that these parameters belong to, by identity."""
    return tuple(layer_of[id(parameter)] for parameter in parameters)
