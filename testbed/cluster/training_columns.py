"""What schedulers see of training jobs: how far each is, how fast, and what it sends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from policies.cluster.scheduler import Snapshot
from policies.cluster.training_view import Ints, Traffic, TrainingView
from testbed.cluster.ledger import Array, fixed
from testbed.cluster.player import Surroundings
from workloads.busy_job import BusyJob
from workloads.training_work import TrainingWork


class TrainingColumns:
    """A number a job; 0 of busy ones."""

    def __init__(self, jobs: Sequence[BusyJob], around: Surroundings) -> None:
        self._around = around
        self.done = np.zeros(len(jobs), dtype=np.int64)  # iterations
        self.total = _column(jobs, lambda work: work.iterations)
        self.iteration_ns = np.zeros(len(jobs), dtype=np.int64)
        self._alone_ns = _column(jobs, lambda work: work.iteration_ns)
        self.shift_ns = np.zeros(len(jobs), dtype=np.int64)
        self.band = np.full(len(jobs), around.bands.index(around.band), dtype=np.int64)
        self._checkpoint_byte = _column(jobs, lambda work: work.checkpoint_byte)
        self._traffic = Traffic(
            _column(jobs, lambda work: work.compute_ns),
            _column(jobs, lambda work: work.sent_byte),
            _column(jobs, lambda work: work.communicate_ns),
            around.loads,
            around.link_bps,
        )

    def shown(self, snapshot: Snapshot, *, durations: bool, traffic: bool) -> Snapshot:
        here = len(snapshot.tasks)
        left = self.total - self.done
        view = TrainingView(
            trains=_seen(self.total > 0, here),
            iterations_done=_seen(self.done, here),
            iteration_ns=_seen(self.iteration_ns, here),
            checkpoint_byte=_seen(self._checkpoint_byte, here),
            shift_ns=_seen(self.shift_ns, here),
            band=_seen(self.band, here),
            bands=self._around.bands,
            steered=self._around.steered,
            rack=_seen(np.array(self._around.rack, dtype=np.int64), len(self._around.rack)),
            iterations_left=_seen(left, here) if durations else None,
            traffic=self._traffic if traffic else None,
        )
        remaining = snapshot.remaining_ns
        if remaining is not None:
            one_ns = np.where(self.iteration_ns > 0, self.iteration_ns, self._alone_ns)[:here]
            trained = snapshot.tasks * left[:here] * one_ns
            remaining = _seen(np.where(view.trains, trained, remaining), here)
        return replace(snapshot, training=view, remaining_ns=remaining)


def _column(jobs: Sequence[BusyJob], of: Callable[[TrainingWork], int]) -> Ints:
    found = [0 if job.work is None else of(job.work) for job in jobs]
    return np.array(found, dtype=np.int64)


def _seen(column: Array, here: int) -> Array:
    """As it is now, for those who are there; nobody can write to it."""
    copied: Array = column[:here].copy()  # type: ignore[assignment]
    return fixed(copied)
