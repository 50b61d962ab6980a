"""The mechanism for jobs that train: they go by whole iterations, and their checkpoints travel.

A player (an engine) has their ranks; here is who holds which hosts when, how far a job is, and who
has its checkpoint. A job leaves its hosts only between two iterations, and each of them then has
its checkpoint; a host that was not one of them gets it from one that was, before the job goes on.
So no iteration is lost or made twice, and a job is never on two placements at once.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from policies.cluster.scheduler import NEVER, Prioritise, Shift, Snapshot
from policies.cluster.training_view import Ints, Traffic, TrainingView
from testbed.cluster.ledger import Array, TaskStretch, fixed
from testbed.cluster.player import Player, Surroundings
from workloads.busy_job import BusyJob
from workloads.training_work import TrainingWork

if TYPE_CHECKING:
    from testbed.cluster.master import Master

PROFILED = 3  # iterations on a placement, after which they are known
RECENT = 5  # iterations whose mean schedulers are shown


@dataclass
class InTraining:
    """What is known of one job."""

    work: TrainingWork
    band: str
    stretch: TaskStretch | None = None  # where its tasks are
    aim: TaskStretch | None = None  # where it moves to
    holders: frozenset[int] = frozenset()  # hosts that have its checkpoint
    made: int = 0  # iterations on this placement
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))


class Trainers:
    def __init__(
        self, master: "Master", jobs: Sequence[BusyJob], player: Player, around: Surroundings
    ) -> None:
        self._master, self._player, self.around = master, player, around
        self._jobs = {
            number: InTraining(job.work, around.band)
            for number, job in enumerate(jobs)
            if job.work is not None
        }
        self.done = np.zeros(len(jobs), dtype=np.int64)  # iterations
        self._total = self._column(jobs, lambda work: work.iterations)
        self._iteration_ns = np.zeros(len(jobs), dtype=np.int64)
        self._alone_ns = self._column(jobs, lambda work: work.iteration_ns)
        self._shift_ns = np.zeros(len(jobs), dtype=np.int64)
        self._band = np.full(len(jobs), around.bands.index(around.band), dtype=np.int64)
        self._checkpoint_byte = self._column(jobs, lambda work: work.checkpoint_byte)
        self._traffic = Traffic(
            self._column(jobs, lambda work: work.compute_ns),
            self._column(jobs, lambda work: work.sent_byte),
            self._column(jobs, lambda work: work.communicate_ns),
            around.loads,
            around.link_bps,
        )

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    @staticmethod
    def _column(jobs: Sequence[BusyJob], of: Callable[[TrainingWork], int]) -> Ints:
        found = [0 if job.work is None else of(job.work) for job in jobs]
        return np.array(found, dtype=np.int64)

    # ---- what is decided

    def start(self, job: int, tasks: Ints, hosts: Ints) -> None:
        one = self._jobs[job]
        one.stretch = self._taken(job, tasks, hosts)
        self._begin(job, one)

    def resume(self, job: int, tasks: Ints, hosts: Ints) -> None:
        one = self._jobs[job]
        one.stretch = self._taken(job, tasks, hosts)
        self._fetch(job, one, hosts, partial(self._resume_at_its_price, job))

    def suspend(self, job: int) -> None:
        stretch = self._jobs[job].stretch
        assert stretch is not None
        self._master.ledger.halt(stretch)
        self._player.rest(job)

    def move(self, job: int, hosts: Ints) -> None:
        one = self._jobs[job]
        assert one.stretch is not None
        self._master.ledger.halt(one.stretch)
        self._master.ledger.take_again(job, one.stretch.tasks, hosts)
        one.aim = self._taken(job, one.stretch.tasks, hosts)
        self._player.rest(job)

    def retune(self, action: Shift | Prioritise, *, running: bool) -> str | None:
        """Shift a job or put it into another band; or why not, with its name to be filled in."""
        if isinstance(action, Prioritise):
            return self._prioritise(action.job, action.band)
        if not running:
            return "shifts {}, which does not run"
        if action.by_ns < 0:
            return "shifts {} by less than nothing"
        self._shift_ns[action.job] += action.by_ns
        self._player.shift(action.job, action.by_ns)
        return None

    def _prioritise(self, job: int, band: str) -> str | None:
        one = self._jobs[job]
        if self.around.steered:
            return "prioritises {}, which the link policy does itself"
        if band not in self.around.bands:
            return f"puts {{}} into {band}; there are {', '.join(self.around.bands)}"
        one.band = band
        self._band[job] = self.around.bands.index(band)
        self._player.change_band(job, band)
        return None

    def _taken(self, job: int, tasks: Ints, hosts: Ints) -> TaskStretch:
        made = TaskStretch(job, tasks, hosts, self._master.now_ns, NEVER, NEVER)
        self._master.stretches.append(made)
        return made

    # ---- what happens

    def iterated(self, job: int, iteration: int, length_ns: int) -> None:
        one = self._jobs[job]
        self.done[job] = iteration + 1
        one.made += 1
        one.recent_ns.append(length_ns)
        self._iteration_ns[job] = sum(one.recent_ns) // len(one.recent_ns)
        if one.made == PROFILED:
            # Later, but now: the rank that tells it is in the middle of something.
            self._master.at(self._master.now_ns, partial(self._profiled, job, one.stretch))

    def _profiled(self, job: int, stretch: TaskStretch | None) -> None:
        if self._jobs[job].stretch is stretch and job not in self._finished:
            self._master.tell("profiled", [job])

    @property
    def _finished(self) -> set[int]:
        return {job for job in self._jobs if self.done[job] == self._total[job]}

    def rested(self, job: int, before: int) -> None:
        one, master = self._jobs[job], self._master
        assert one.stretch is not None
        assert before >= self.done[job], "iterations are never lost"
        self.done[job] = before
        self._player.end(job)
        if before == self._total[job]:
            self._finish(job, one)
            return
        master.ledger.rest(one.stretch, master.now_ns)
        one.holders = frozenset(one.stretch.hosts.tolist())
        one.stretch.why = "suspended" if one.aim is None else "moved"
        after = self._left if one.aim is None else self._carry
        master.at(master.now_ns + master.prices.suspend_ns, partial(after, job))

    def _finish(self, job: int, one: InTraining) -> None:
        master, stretch = self._master, one.stretch
        assert stretch is not None
        if one.aim is not None:  # it was done before it could move
            one.aim.start_ns = one.aim.end_ns = master.now_ns
            master.ledger.release(one.aim, master.now_ns)
            master.ledger.halt(one.aim)
            one.aim = None
        elif master.ledger.running[job]:
            master.ledger.halt(stretch)
        master.ledger.rest(stretch, master.now_ns)
        master.ledger.leave(stretch, master.now_ns, done=True)
        stretch.why = "finished"
        self._player.forget(job, sorted(one.holders))
        one.stretch, one.holders = None, frozenset()
        master.tell("finished", [job])

    def _left(self, job: int) -> None:
        one, master = self._jobs[job], self._master
        assert one.stretch is not None
        master.ledger.leave(one.stretch, master.now_ns, done=False)
        one.stretch = None
        self._forget_speed(job, one)
        master.tell("suspended", [job])

    def _carry(self, job: int) -> None:
        """The checkpoint of a job that moves is there: it travels, and the old hosts are free."""
        one = self._jobs[job]
        assert one.aim is not None
        self._fetch(job, one, one.aim.hosts, partial(self._carried, job))

    def _carried(self, job: int) -> None:
        one, master = self._jobs[job], self._master
        assert one.stretch is not None
        master.ledger.release(one.stretch, master.now_ns)
        one.stretch, one.aim = one.aim, None
        self._resume_at_its_price(job)

    def _resume_at_its_price(self, job: int) -> None:
        master = self._master
        master.at(master.now_ns + master.prices.resume_ns, partial(self._land, job))

    def _land(self, job: int) -> None:
        self._begin(job, self._jobs[job])
        self._master.tell("landed", [job])

    def _begin(self, job: int, one: InTraining) -> None:
        assert one.stretch is not None
        self._forget_speed(job, one)
        hosts = one.stretch.hosts.tolist()
        self._player.forget(job, sorted(one.holders - set(hosts)))  # it is stale from now on
        one.holders = frozenset(hosts)
        one.stretch.start_ns = self._master.now_ns
        self._master.ledger.work(one.stretch)
        self._player.begin(job, hosts, int(self.done[job]), one.band)

    def _forget_speed(self, job: int, one: InTraining) -> None:
        one.made = 0
        one.recent_ns.clear()
        self._iteration_ns[job] = 0

    def _fetch(self, job: int, one: InTraining, hosts: Ints, then: Callable[[], None]) -> None:
        """Every host that has no checkpoint gets it from one that has, each of those in turn."""
        lacking = sorted(set(hosts.tolist()) - one.holders) if one.work.checkpoint_byte else []
        if not lacking:
            then()
            return
        left = set(lacking)

        def done(target: int) -> None:
            left.discard(target)
            if not left:
                then()

        holders = sorted(one.holders)
        for at, target in enumerate(lacking):
            self._player.fetch(job, holders[at % len(holders)], target, partial(done, target))

    # ---- what schedulers see

    def shown(self, snapshot: Snapshot, *, durations: bool, traffic: bool) -> Snapshot:
        here = len(snapshot.tasks)
        left = self._total - self.done
        view = TrainingView(
            trains=_seen(self._total > 0, here),
            iterations_done=_seen(self.done, here),
            iteration_ns=_seen(self._iteration_ns, here),
            checkpoint_byte=_seen(self._checkpoint_byte, here),
            shift_ns=_seen(self._shift_ns, here),
            band=_seen(self._band, here),
            bands=self.around.bands,
            steered=self.around.steered,
            rack=_seen(np.array(self.around.rack, dtype=np.int64), len(self.around.rack)),
            iterations_left=_seen(left, here) if durations else None,
            traffic=self._traffic if traffic else None,
        )
        remaining = snapshot.remaining_ns
        if remaining is not None:
            one_ns = np.where(self._iteration_ns > 0, self._iteration_ns, self._alone_ns)[:here]
            trained = snapshot.tasks * left[:here] * one_ns
            remaining = _seen(np.where(view.trains, trained, remaining), here)
        return replace(snapshot, training=view, remaining_ns=remaining)


def _seen(column: Array, here: int) -> Array:
    """As it is now, for those who are there; nobody can write to it."""
    copied: Array = column[:here].copy()  # type: ignore[assignment]
    return fixed(copied)
