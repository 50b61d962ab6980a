"""What is known of a cluster while it runs: who holds what, and what became of every task."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from basics import resources
from basics.resources import GPU, Amounts
from policies.cluster.scheduler import (
    DONE,
    LANDING,
    NEVER,
    RUNNING,
    SUSPENDED,
    SUSPENDING,
    WAITING,
    Ints,
    Snapshot,
)
from testbed.cluster.packs import Packs
from workloads.busy_job import BusyJob

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


@dataclass(slots=True, eq=False)
class TaskStretch:
    """Tasks of a job that run from the same moment on, until they end, are suspended or moved.

    Their hosts are theirs from `taken_ns` until `free_ns`, and they work from `start_ns` to
    `end_ns`.
    """

    job: int
    tasks: Ints
    hosts: Ints
    taken_ns: int
    start_ns: int
    end_ns: int
    free_ns: int = -1  # not yet
    why: str = "stopped"  # finished, suspended, moved, lost with a host, or by the run's end
    works: bool = False


class Ledger:
    """The columns of the snapshot, and the few ways in which they change."""

    def __init__(
        self, jobs: Sequence[BusyJob], hosts: int, capacity: Amounts, pack: int = 1
    ) -> None:
        """`pack`: how many jobs may share GPUs."""
        self.jobs = jobs
        self.packs = Packs(pack)
        self.arrived = 0
        count = [job.tasks for job in jobs]
        self.capacity = np.tile(np.array(capacity, dtype=np.int64), (hosts, 1))
        self.free = self.capacity.copy()
        self.up = np.ones(hosts, dtype=bool)
        self.submitted_ns = np.array([job.submitted_ns for job in jobs], dtype=np.int64)
        self.deadline_ns = np.array(
            [NEVER if job.deadline_ns is None else job.deadline_ns for job in jobs], dtype=np.int64
        )
        self.demand = np.array([job.demand for job in jobs], dtype=np.int64)
        self.gang = np.array([job.gang for job in jobs], dtype=bool)
        self.alike = _kinds(jobs)
        self.tasks = np.array(count, dtype=np.int64)
        self.waiting = self.tasks.copy()
        self.running = np.zeros_like(self.tasks)
        self.suspended = np.zeros_like(self.tasks)
        self.work_ns = np.array(
            [NEVER if job.duration_ns is None else job.duration_ns for job in jobs], dtype=np.int64
        )
        self.first_task = np.cumsum([0, *count], dtype=np.int64)[:-1]
        self.task_job = np.repeat(np.arange(len(jobs)), count)
        self.task_state = np.full(sum(count), WAITING, dtype=np.int64)
        self.task_host = np.full(sum(count), -1, dtype=np.int64)
        self.task_left_ns = self.work_ns[self.task_job]
        # Work of a job up to now: what ended stretches did, and for those that go on, their number
        # times now less the sum of their starts.
        self._done_ns = np.zeros_like(self.tasks)
        self._working = np.zeros_like(self.tasks)
        self._starts_ns = np.zeros_like(self.tasks)

    def snapshot(self, now_ns: int, *, durations: bool) -> Snapshot:
        here = self.arrived
        tasks = int(self.first_task[here - 1] + self.tasks[here - 1]) if here else 0
        attained = self._done_ns + self._working * now_ns - self._starts_ns
        endless = self.work_ns == NEVER
        left = np.where(endless, NEVER, self.tasks * np.where(endless, 0, self.work_ns) - attained)
        return Snapshot(
            now_ns,
            capacity=fixed(self.capacity),
            free=fixed(self.free),
            submitted_ns=fixed(self.submitted_ns[:here]),
            deadline_ns=fixed(self.deadline_ns[:here]),
            demand=fixed(self.demand[:here]),
            gang=fixed(self.gang[:here]),
            alike=fixed(self.alike[:here]),
            tasks=fixed(self.tasks[:here]),
            waiting=fixed(self.waiting[:here]),
            running=fixed(self.running[:here]),
            suspended=fixed(self.suspended[:here]),
            attained_ns=fixed(attained[:here]),
            first_task=fixed(self.first_task[:here]),
            task_state=fixed(self.task_state[:tasks]),
            task_job=fixed(self.task_job[:tasks]),
            task_host=fixed(self.task_host[:tasks]),
            remaining_ns=fixed(left[:here]) if durations else None,
        )

    @property
    def all_done(self) -> bool:
        return self.arrived == len(self.jobs) and bool((self.task_state == DONE).all())

    def tasks_of(self, job: int) -> slice:
        first = int(self.first_task[job])
        return slice(first, first + int(self.tasks[job]))

    def in_state(self, job: int, state: int) -> Ints:
        own = self.tasks_of(job)
        found: Ints = own.start + np.flatnonzero(self.task_state[own] == state)
        return found

    def overfull(self, job: int, hosts: Sequence[int], *, shares: bool = False) -> str | None:
        """The first host that would hold more than it has, and of what; None: there is room.

        `shares`: GPUs of another job, which are not asked for again.
        """
        demand = self._needs(job, shares=shares).tolist()
        for host, count in sorted(Counter(hosts).items()):
            free = self.free[host].tolist()
            for name, need, have in zip(resources.NAMES, demand, free, strict=True):
                if count * need > have:
                    return (
                        f"h{host + 1}, which would take {resources.said(name, count * need)} of "
                        f"{resources.said(name, have)} that is free"
                    )
        return None

    def take(
        self, job: int, tasks: Ints, hosts: Ints, *, lands: bool, shares: bool = False
    ) -> None:
        self._hold(hosts, self._needs(job, shares=shares))
        column = self.waiting if self.task_state[tasks[0]] == WAITING else self.suspended
        column[job] -= len(tasks)
        self.running[job] += len(tasks)
        self.task_host[tasks] = hosts
        self.task_state[tasks] = LANDING if lands else RUNNING

    def _needs(self, job: int, *, shares: bool) -> Ints:
        found: Ints = self.demand[job]
        if shares:
            found = found.copy()
            found[GPU] = 0
        return found

    def _hold(self, hosts: Ints, demand: Ints) -> None:
        for host in hosts.tolist():  # few and often: faster than numpy for up to some ten
            self.free[host] -= demand

    def work(self, stretch: TaskStretch) -> None:
        """Its tasks begin to work, at its start."""
        stretch.works = True
        self.task_state[stretch.tasks] = RUNNING
        self._working[stretch.job] += len(stretch.tasks)
        self._starts_ns[stretch.job] += len(stretch.tasks) * stretch.start_ns

    def stop(self, stretch: TaskStretch, now_ns: int) -> None:
        """Its tasks work no longer, but still hold their hosts."""
        self.halt(stretch)
        self.rest(stretch, now_ns)

    def halt(self, stretch: TaskStretch) -> None:
        """Its tasks are to stop; those that train work on until their iteration is over."""
        self.running[stretch.job] -= len(stretch.tasks)
        self.task_state[stretch.tasks] = SUSPENDING

    def rest(self, stretch: TaskStretch, now_ns: int) -> None:
        """What its tasks did is counted."""
        stretch.end_ns = now_ns
        count = len(stretch.tasks)
        self._end_work(stretch)
        self._done_ns[stretch.job] += count * (now_ns - stretch.start_ns)
        if self.work_ns[stretch.job] != NEVER:
            left_ns = self.task_left_ns[stretch.tasks] - (now_ns - stretch.start_ns)
            self.task_left_ns[stretch.tasks] = np.maximum(left_ns, 0)  # its end may be on its way

    def _end_work(self, stretch: TaskStretch) -> None:
        stretch.works = False
        self._working[stretch.job] -= len(stretch.tasks)
        self._starts_ns[stretch.job] -= len(stretch.tasks) * stretch.start_ns

    def take_again(self, job: int, tasks: Ints, hosts: Ints) -> None:
        """Tasks that have stopped for a move hold their new hosts too."""
        self._hold(hosts, self.demand[job])
        self.running[job] += len(tasks)
        self.task_host[tasks] = hosts
        self.task_state[tasks] = LANDING

    def release(self, stretch: TaskStretch, now_ns: int) -> None:
        """The hosts are free again, those that are still there; GPUs that others share stay."""
        stretch.free_ns = now_ns
        shares = self.packs.leave(stretch.job, now_ns)
        still = stretch.hosts[self.up[stretch.hosts]]
        self._hold(still, -self._needs(stretch.job, shares=shares))

    def leave(self, stretch: TaskStretch, now_ns: int, *, done: bool) -> None:
        """Its tasks are done or suspended, and their hosts free again."""
        self.release(stretch, now_ns)
        self.task_state[stretch.tasks] = DONE if done else SUSPENDED
        if not done:
            self.suspended[stretch.job] += len(stretch.tasks)

    # ---- hosts that are gone

    def lose(self, host: int) -> None:
        """Nothing fits on this host from now on; what it held is not free there."""
        self.up[host] = False
        self.free[host] = 0

    def drop(self, stretch: TaskStretch, now_ns: int, saved: npt.NDArray[np.bool_]) -> None:
        """Its tasks are off their hosts, and what they did there is lost.

        Those that are `saved` had been suspended before, and go on from there; others begin anew.
        """
        job, tasks = stretch.job, stretch.tasks
        if stretch.works:
            self._end_work(stretch)
        stretch.start_ns, stretch.end_ns = min(stretch.start_ns, now_ns), now_ns
        stretch.why = "lost"
        self.release(stretch, now_ns)
        if self.task_state[tasks[0]] in (LANDING, RUNNING):  # else they were to leave anyway
            self.running[job] -= len(tasks)
        self.task_state[tasks] = np.where(saved, SUSPENDED, WAITING)
        self.suspended[job] += np.count_nonzero(saved)
        self.waiting[job] += len(tasks) - np.count_nonzero(saved)

    def begin_anew(self, job: int) -> None:
        """The checkpoint of its suspended tasks is gone."""
        self.waiting[job] += self.suspended[job]
        self.suspended[job] = 0
        self.task_state[self.in_state(job, SUSPENDED)] = WAITING

    def misfit(self, rejected: Collection[int]) -> int | None:
        """The first job that can never be done on the hosts that are left; None: all can."""
        room = self.capacity[self.up]
        for job in np.unique(self.task_job[self.task_state != DONE]).tolist():
            needed = np.flatnonzero(self.demand[job])
            fits = (room[:, needed] // self.demand[job][needed]).min(axis=1)
            least = int(self.tasks[job]) if self.gang[job] else 1
            if job not in rejected and int(fits.sum()) < least:
                return int(job)
        return None


def fixed(column: Array) -> Array:
    seen = column.view()
    seen.flags.writeable = False
    return seen


def _kinds(jobs: Sequence[BusyJob]) -> Ints:
    """A number for each different ask: what a task needs, and how many are placed at once."""
    numbers: dict[tuple[Amounts, int], int] = {}
    asks = [(job.demand, job.tasks if job.gang else 0) for job in jobs]
    return np.array([numbers.setdefault(ask, len(numbers)) for ask in asks], dtype=np.int64)
