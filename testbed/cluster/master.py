"""The mechanism of a cluster: tells a scheduler what happens, checks what it decides, and does it.

Time goes from moment to moment: arrivals, ends of stretches, hosts that become free, looks. Busy
jobs are done with that. Jobs that train are played by an engine (trainers.py); what is decided is
checked here for both.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from basics.errors import RunFailed
from basics.resources import Amounts
from basics.units import format_time
from policies.cluster.scheduler import (
    NEVER,
    RUNNING,
    SUSPENDED,
    WAITING,
    Action,
    Event,
    Happened,
    Ints,
    Move,
    Reject,
    Resume,
    Ruling,
    Scheduler,
    Start,
    Suspend,
)
from testbed.cluster import faults
from testbed.cluster.ledger import Ledger, TaskStretch
from testbed.cluster.losses import lose
from testbed.cluster.moments import Moments, Timeline
from testbed.cluster.player import BusyPlayer, Player, Surroundings
from testbed.cluster.prices import FREE, Prices
from testbed.cluster.trainers import Trainers
from workloads.busy_job import BusyJob


class Master:
    """One cluster under one scheduler, from the first arrival until nothing is left to do."""

    def __init__(
        self,
        jobs: Sequence[BusyJob],
        hosts: int,
        capacity: Amounts,
        scheduler: Scheduler,
        prices: Prices = FREE,
        time: Timeline | None = None,
        training: tuple[Player, Surroundings] | None = None,
        busy: BusyPlayer | None = None,
    ) -> None:
        """`time`: that of the engine that plays `training`; without, moments follow each other.

        `busy`: who plays busy tasks; without, they end when their time has passed.
        """
        self.ledger = Ledger(jobs, hosts, capacity, scheduler.pack)
        self.stretches: list[TaskStretch] = []
        self.undone: list[tuple[str, int, int]] = []  # (job, from this iteration on, when)
        self.rejected: set[int] = set()
        self.prices, self.busy = prices, busy
        self.trainers = Trainers(self, jobs, *training) if training else None
        self._time = Moments() if time is None else time
        self._scheduler = scheduler
        self._memory: Any = None
        self._look_ns: int | None = None
        self._leaving: list[TaskStretch] = []  # of this ruling
        self._landing: list[TaskStretch] = []
        self._on: dict[int, list[TaskStretch]] = {}  # by job, those that hold hosts and go on
        for number, job in enumerate(jobs):
            self.at(job.submitted_ns, partial(self._arrive, number))

    @property
    def now_ns(self) -> int:
        return self._time.now_ns

    def run(self, until_ns: int, on_time: Callable[[int], None] = lambda time_ns: None) -> None:
        """Go through all moments before this one; what runs then is stopped."""
        assert isinstance(self._time, Moments), "else the engine does"
        self._time.run(until_ns, on_time)
        self.close(until_ns)

    def close(self, until_ns: int) -> None:
        """The run is over: what holds hosts is stopped."""
        self.ledger.packs.close(until_ns)
        for stretch in self.stretches:
            if stretch.free_ns < 0:
                stretch.start_ns = min(stretch.start_ns, until_ns)
                stretch.end_ns = min(stretch.end_ns, until_ns)
                stretch.free_ns = until_ns

    # ---- what happens

    def at(self, time_ns: int, moment: Callable[[], object]) -> None:
        self._time.at(time_ns, moment)

    def _arrive(self, job: int) -> None:
        self.ledger.arrived = job + 1
        self.tell("arrived", [job])

    def _end(self, stretch: TaskStretch) -> None:
        if stretch.why == "stopped":  # else it was suspended or moved meanwhile
            self._on[stretch.job].remove(stretch)
            self.ledger.stop(stretch, self.now_ns)
            self.ledger.leave(stretch, self.now_ns, done=True)
            stretch.why = "finished"
            self.tell("finished", [stretch.job])

    def _land(self, stretches: list[TaskStretch]) -> None:
        there = [stretch for stretch in stretches if stretch.why != "lost"]
        self._work(there)
        self.tell("landed", [stretch.job for stretch in there])

    def _leave(self, stretches: list[TaskStretch]) -> None:
        leaving = [stretch for stretch in stretches if stretch.free_ns < 0]
        for stretch in leaving:
            self.ledger.leave(stretch, self.now_ns, done=False)
        self.tell("suspended", [stretch.job for stretch in leaving])

    def lose(self, host: int) -> None:
        self.tell("suspended", lose(self, self._on, host))

    def _wake(self, look_ns: int) -> None:
        if self._look_ns == look_ns:  # else a later decision wanted another time, or none
            self.tell("looked", [])

    def tell(self, what: Happened, jobs: list[int]) -> None:
        scheduler, known = self._scheduler, {"durations": self._scheduler.needs_durations}
        snapshot = self.ledger.snapshot(self.now_ns, **known)
        if self.trainers is not None:
            snapshot = self.trainers.shown(snapshot, **known, traffic=scheduler.needs_traffic)
        event = Event(what, tuple(dict.fromkeys(jobs)))
        decision = scheduler.decided(snapshot, event, self._memory)
        self._memory = decision.memory
        for action in decision.actions:
            self._do(action)
        # Whom one ruling suspends leave together, and whom it resumes land together.
        if self._leaving:
            self.at(self.now_ns + self.prices.suspend_ns, partial(self._leave, self._leaving))
        if self._landing:
            self.at(self.now_ns + self.prices.resume_ns, partial(self._land, self._landing))
        self._leaving, self._landing = [], []
        self._look_again(decision)

    def _look_again(self, decision: Ruling) -> None:
        look_ns = decision.look_ns
        if look_ns is not None and look_ns <= self.now_ns:
            raise self._illegal(f"wants to look at {format_time(look_ns)}, which is not later")
        if look_ns is not None and look_ns != self._look_ns:
            self.at(look_ns, lambda: self._wake(look_ns))
        self._look_ns = look_ns

    # ---- what is decided

    def _do(self, action: Action) -> None:
        if not 0 <= action.job < self.ledger.arrived or action.job in self.rejected:
            raise self._illegal(f"decides on job {action.job}, which is not there")
        if isinstance(action, Start):
            self._enter(action, WAITING, "start", 0)
        elif isinstance(action, Resume):
            self._enter(action, SUSPENDED, "resume", self.prices.resume_ns)
        elif isinstance(action, Suspend):
            self._suspend(action.job)
        elif isinstance(action, Move):
            self._move(action)
        elif isinstance(action, Reject):
            self._reject(action.job)
        elif self.trainers is not None and action.job in self.trainers:
            self._demand(self.trainers.retune(action, running=self._runs(action.job)), action.job)
        else:
            self._demand(faults.of_busy(action), action.job)

    def _enter(self, action: Start | Resume, state: int, verb: str, price_ns: int) -> None:
        job, hosts, shares = action.job, action.hosts, action.beside is not None
        there = self.ledger.in_state(job, state)
        chosen = self._checked(job, hosts, verb, shares=shares)
        self._demand(faults.of_entry(self.ledger, job, len(hosts), len(there), verb), job)
        tasks = there[: len(hosts)]
        if action.beside is not None:
            self._share(job, hosts, action.beside)
        self.ledger.take(job, tasks, chosen, lands=state == SUSPENDED, shares=shares)
        if self.trainers is not None and job in self.trainers:
            enter = self.trainers.resume if state == SUSPENDED else self.trainers.start
            enter(job, tasks, chosen)
            return
        begun = self._begun(job, tasks, chosen, self.now_ns + price_ns)
        if state == SUSPENDED:
            self._landing += begun
        else:
            self._work(begun)

    def _share(self, job: int, hosts: tuple[int, ...], other: int) -> None:
        train = self.trainers is not None and job in self.trainers and other in self.trainers
        runs = train and self._runs(other)
        self._demand(self.ledger.packs.fault(self.ledger, job, hosts, other, runs=runs), job, other)
        assert self.trainers is not None
        self.ledger.packs.join(job, other, self.now_ns)
        self.trainers.share(job, other)

    def _begun(self, job: int, tasks: Ints, hosts: Ints, start_ns: int) -> list[TaskStretch]:
        """Tasks of a job with the same work left are one stretch."""
        left_ns = self.ledger.task_left_ns[tasks]
        begun = []
        for work_ns in sorted(set(left_ns.tolist())):
            same = left_ns == work_ns
            end_ns = min(start_ns + work_ns, NEVER)
            begun.append(TaskStretch(job, tasks[same], hosts[same], self.now_ns, start_ns, end_ns))
        self.stretches += begun
        self._on.setdefault(job, []).extend(begun)
        return begun

    def _work(self, stretches: list[TaskStretch]) -> None:
        for stretch in stretches:
            self.ledger.work(stretch)
            if self.busy is None:
                self.at(stretch.end_ns, partial(self._end, stretch))
            else:
                self.busy.work(stretch, partial(self._end, stretch))

    def _suspend(self, job: int) -> None:
        self._demand_running(job, "suspends")
        if self.trainers is not None and job in self.trainers:
            self.trainers.suspend(job)
        else:
            self._leaving += self._stop(job, "suspended")

    def _demand_running(self, job: int, verb: str) -> None:
        if not self._runs(job):
            raise self._illegal(f"{verb} {self._name(job)}, which does not run")

    def _runs(self, job: int) -> bool:
        """All of its tasks that are on hosts have landed there."""
        running = int(self.ledger.running[job])
        return running > 0 and len(self.ledger.in_state(job, RUNNING)) == running

    def _stop(self, job: int, why: str) -> list[TaskStretch]:
        on = self._on.pop(job)
        for stretch in on:
            if self.busy is not None:
                self.busy.stop(stretch)
            self.ledger.stop(stretch, self.now_ns)
            stretch.why = why
        return on

    def _move(self, action: Move) -> None:
        """The new hosts are held from now on, the old ones until the tasks have left."""
        running = int(self.ledger.running[action.job])
        chosen = self._checked(action.job, action.hosts, "move")
        if len(chosen) != running:
            raise self._illegal(
                f"moves {self._name(action.job)} to {len(chosen)} places; it has {running} tasks"
            )
        self._demand_running(action.job, "moves")
        if self.ledger.packs.mates(action.job):
            raise self._illegal(f"moves {self._name(action.job)}, whose GPUs others share")
        if self.trainers is not None and action.job in self.trainers:
            self.trainers.move(action.job, chosen)
            return
        stopped = self._stop(action.job, "moved")
        tasks = np.concatenate([stretch.tasks for stretch in stopped])
        self.ledger.take_again(action.job, tasks, chosen)
        left_ns = self.now_ns + self.prices.suspend_ns
        for stretch in stopped:
            self.at(left_ns, partial(self.ledger.release, stretch, left_ns))
        begun = self._begun(action.job, tasks, chosen, left_ns + self.prices.resume_ns)
        self.at(left_ns + self.prices.resume_ns, partial(self._land, begun))

    def _reject(self, job: int) -> None:
        if self.ledger.waiting[job] != self.ledger.tasks[job]:
            raise self._illegal(f"rejects {self._name(job)}, which has been started")
        self.ledger.waiting[job] = 0
        self.rejected.add(job)

    def _checked(
        self, job: int, hosts: tuple[int, ...], verb: str, *, shares: bool = False
    ) -> Ints:
        if hosts and not (min(hosts) >= 0 and max(hosts) < len(self.ledger.capacity)):
            raise self._illegal(f"{verb}s {self._name(job)} on a host that is not there")
        full = self.ledger.overfull(job, hosts, shares=shares)
        if full is not None:
            raise self._illegal(f"{verb}s {self._name(job)} on {full}")
        return np.array(hosts, dtype=np.int64)

    def _demand(self, fault: str | None, *jobs: int) -> None:
        if fault is not None:
            raise self._illegal(fault.format(*map(self._name, jobs)))

    def _name(self, job: int) -> str:
        return self.ledger.jobs[job].name

    def _illegal(self, what: str) -> RunFailed:
        return RunFailed(
            f"the placement {self._scheduler.name} {what} (at {format_time(self.now_ns)})"
        )
