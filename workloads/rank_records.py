"""The one writer of what happens to a rank: rows of the record schema (basics/records.py)."""

from typing import NamedTuple, Protocol

from workloads.compute import Compute, Iteration


class Sink(Protocol):
    """Where rows go: a file while a live run goes on, or memory."""

    def write(self, table: str, *values: str | float | None) -> None: ...


class Exchanged(NamedTuple):
    """Gradients that have been sent and are back, together."""

    number: int
    iteration: int
    layers: tuple[int, ...]
    byte: int
    priority: int
    ready_ns: int  # when the last of them was computed here
    start_ns: int
    end_ns: int


class RankRecords:
    def __init__(self, sink: Sink, job: str, rank: int) -> None:
        self._sink = sink
        self._job = job
        self._rank = rank

    def compute(self, done: Compute, late_ns: int) -> None:
        stretch = done.stretch
        self._sink.write(
            "computes",
            self._job,
            self._rank,
            done.iteration,
            stretch.phase,
            stretch.first_layer,
            done.start_ns,
            done.end_ns,
            late_ns,
        )

    def iteration(self, over: Iteration) -> None:
        self._sink.write(
            "iterations",
            self._job,
            self._rank,
            over.iteration,
            over.start_ns,
            over.end_ns,
            over.compute_ns,
            over.wait_ns,
        )

    def transfer(self, done: Exchanged, needed_ns: int | None) -> None:
        self._sink.write(
            "transfers",
            self._job,
            self._rank,
            done.iteration,
            done.number,
            min(done.layers),
            len(done.layers),
            done.byte,
            done.priority,
            done.ready_ns,
            done.start_ns,
            done.end_ns,
            needed_ns,
        )

    def barrier(self, iteration: int, worker: int, enter_ns: int, leave_ns: int) -> None:
        """Of a server: a worker's gradient was there, and the next model began to go."""
        self._sink.write("barriers", self._job, self._rank, iteration, worker, enter_ns, leave_ns)
