"""The mechanism for jobs that train: they go by whole iterations, and their checkpoints travel.

A player (an engine) has their ranks; here is who holds which hosts when, how far a job is, and who
has its checkpoint. A job leaves its hosts only between two iterations, and each of them then has
its checkpoint; a host that was not one of them gets it from one that was, before the job goes on.
So no iteration is lost or made twice, and a job is never on two placements at once. Only if a host
is lost does a job go back, to its last checkpoint.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from policies.cluster.scheduler import NEVER, Prioritise, Shift
from policies.cluster.training_view import Ints
from testbed.cluster.in_training import InTraining
from testbed.cluster.ledger import TaskStretch
from testbed.cluster.losses import all_of
from testbed.cluster.player import Player, SharesGpus, Surroundings
from testbed.cluster.training_columns import TrainingColumns
from workloads.busy_job import BusyJob

if TYPE_CHECKING:
    from testbed.cluster.master import Master

PROFILED = 3  # iterations on a placement, after which they are known


class Trainers:
    def __init__(
        self, master: "Master", jobs: Sequence[BusyJob], player: Player, around: Surroundings
    ) -> None:
        self._master, self._player, self.around = master, player, around
        self.gpus: SharesGpus | None = None  # set by an engine that can have jobs on the same ones
        self._jobs = {
            number: InTraining(job.work, around.band)
            for number, job in enumerate(jobs)
            if job.work is not None
        }
        self._seen = TrainingColumns(jobs, around)
        self.shown = self._seen.shown

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    # ---- what is decided

    def start(self, job: int, tasks: Ints, hosts: Ints) -> None:
        one = self._jobs[job]
        one.stretch = self._taken(job, tasks, hosts)
        self._begin(job, one)

    def resume(self, job: int, tasks: Ints, hosts: Ints) -> None:
        one = self._jobs[job]
        one.stretch = self._taken(job, tasks, hosts)
        self._fetch(job, one, hosts, partial(self._resume_at_its_price, job))

    def share(self, job: int, other: int) -> None:
        """It is going to begin on the GPUs of another one."""
        assert self.gpus is not None, "else the engine has refused to pack"
        self.gpus.share(job, other)

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
        self._seen.shift_ns[action.job] += action.by_ns
        self._player.shift(action.job, action.by_ns)
        return None

    def _prioritise(self, job: int, band: str) -> str | None:
        one = self._jobs[job]
        if self.around.steered:
            return "prioritises {}, which the link policy does itself"
        if band not in self.around.bands:
            return f"puts {{}} into {band}; there are {', '.join(self.around.bands)}"
        one.band = band
        self._seen.band[job] = self.around.bands.index(band)
        self._player.change_band(job, band)
        return None

    def _taken(self, job: int, tasks: Ints, hosts: Ints) -> TaskStretch:
        made = TaskStretch(job, tasks, hosts, self._master.now_ns, NEVER, NEVER)
        self._master.stretches.append(made)
        return made

    # ---- what happens

    def iterated(self, job: int, iteration: int, length_ns: int) -> None:
        one = self._jobs[job]
        self._seen.done[job] = iteration + 1
        if one.mixed:  # others came to its GPUs in the middle of it, or left
            one.mixed = False
            return
        one.made += 1
        one.recent_ns.append(length_ns)
        self._seen.iteration_ns[job] = sum(one.recent_ns) // len(one.recent_ns)
        if one.made == PROFILED:
            # Later, but now: the rank that tells it is in the middle of something.
            self._master.at(self._master.now_ns, partial(self._profiled, job, one.stretch))

    def _profiled(self, job: int, stretch: TaskStretch | None) -> None:
        if self._jobs[job].stretch is stretch and job not in self._finished:
            self._master.tell("profiled", [job])

    @property
    def _finished(self) -> set[int]:
        return {job for job in self._jobs if self._seen.done[job] == self._seen.total[job]}

    def rested(self, job: int, before: int) -> None:
        one, master = self._jobs[job], self._master
        assert one.stretch is not None
        assert before >= self._seen.done[job], "iterations are never lost"
        self._seen.done[job] = before
        self._player.end(job)
        if before == self._seen.total[job]:
            self._finish(job, one)
            return
        master.ledger.rest(one.stretch, master.now_ns)
        one.holders, one.saved = frozenset(one.stretch.hosts.tolist()), before
        one.stretch.why = "suspended" if one.aim is None else "moved"
        self._later(job, master.prices.suspend_ns, self._left if one.aim is None else self._carry)

    def _later(self, job: int, wait_ns: int, what: Callable[[int], None]) -> None:
        """Unless the job is somewhere else by then: its hosts may be lost."""
        turn = self._jobs[job].turn

        def due() -> None:
            if self._jobs[job].turn == turn:
                what(job)

        self._master.at(self._master.now_ns + wait_ns, due)

    def _finish(self, job: int, one: InTraining) -> None:
        master, stretch = self._master, one.stretch
        assert stretch is not None
        if one.aim is not None:  # it was done before it could move
            self._stay(one)
        elif master.ledger.running[job]:
            master.ledger.halt(stretch)
        master.ledger.rest(stretch, master.now_ns)
        self._disturb_mates(job)
        master.ledger.leave(stretch, master.now_ns, done=True)
        stretch.why = "finished"
        self._player.forget(job, sorted(one.holders))
        one.stretch, one.holders, one.saved = None, frozenset(), 0
        master.tell("finished", [job])

    def _stay(self, one: InTraining) -> None:
        """It does not move; until it rests it is where it was."""
        assert one.stretch is not None
        assert one.aim is not None
        one.aim.start_ns = one.aim.end_ns = self._master.now_ns
        self._master.ledger.release(one.aim, self._master.now_ns)
        self._master.ledger.halt(one.aim)
        self._master.ledger.task_host[one.stretch.tasks] = one.stretch.hosts
        one.aim = None

    def _left(self, job: int) -> None:
        one, master = self._jobs[job], self._master
        assert one.stretch is not None
        self._disturb_mates(job)
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
        self._later(job, self._master.prices.resume_ns, self._land)

    def _land(self, job: int) -> None:
        self._begin(job, self._jobs[job])
        self._master.tell("landed", [job])

    def _begin(self, job: int, one: InTraining) -> None:
        assert one.stretch is not None
        self._forget_speed(job, one)
        hosts = one.stretch.hosts.tolist()
        self._player.forget(job, sorted(one.holders - set(hosts)))  # it is stale from now on
        one.holders = frozenset(hosts)
        self._disturb_mates(job)
        one.stretch.start_ns = self._master.now_ns
        self._master.ledger.work(one.stretch)
        self._player.begin(job, hosts, int(self._seen.done[job]), one.band)

    def _disturb_mates(self, job: int) -> None:
        """It begins or leaves: what iterations take of others on its GPUs is another matter now."""
        for mate in self._master.ledger.packs.mates(job):
            self._forget_speed(mate, self._jobs[mate])
            self._jobs[mate].mixed = True

    def _forget_speed(self, job: int, one: InTraining) -> None:
        one.made, one.mixed = 0, False
        one.recent_ns.clear()
        self._seen.iteration_ns[job] = 0

    def _fetch(self, job: int, one: InTraining, hosts: Ints, then: Callable[[], None]) -> None:
        """Every host that has no checkpoint gets it from one that has, each of those in turn."""
        lacking = sorted(set(hosts.tolist()) - one.holders) if one.work.checkpoint_byte else []
        if not lacking:
            then()
            return
        left, turn = set(lacking), one.turn

        def done(target: int) -> None:
            if one.turn == turn:
                left.discard(target)
                if not left:
                    one.sources = frozenset()
                    then()

        holders = sorted(one.holders)
        one.sources = frozenset(holders[: len(lacking)])
        for at, target in enumerate(lacking):
            self._player.fetch(job, holders[at % len(holders)], target, partial(done, target))

    # ---- a host is lost

    def lose(self, host: int) -> list[int]:
        """Who needs it goes back to its last checkpoint; returns who is back in the queue."""
        back = []
        for job, one in self._jobs.items():
            one.holders -= {host}
            if one.stretch is not None and one.needs(host):
                if one.aim is not None and one.stretch.works and host not in one.stretch.hosts:
                    one.aim.why = "lost"
                    self._stay(one)  # it is about to rest, and is suspended then
                    continue
                self._drop(job, one)
                back.append(job)
            if one.saved and one.stretch is None and not one.has_checkpoint:
                one.saved = self._seen.done[job] = 0
                self._master.ledger.begin_anew(job)
                self._undone(job)
        return back

    def _drop(self, job: int, one: InTraining) -> None:
        """Its ranks stop, and nothing that was planned for it happens."""
        ledger, now_ns, stretch = self._master.ledger, self._master.now_ns, one.stretch
        assert stretch is not None
        self._player.abandon(job)
        saved = one.has_checkpoint
        if stretch.why == "suspended":  # it rests already
            ledger.leave(stretch, now_ns, done=False)
        elif stretch.why == "moved":
            assert one.aim is not None
            ledger.release(stretch, now_ns)
            ledger.drop(one.aim, now_ns, all_of(one.aim, saved=True))
        else:
            if one.aim is not None:
                one.aim.start_ns = one.aim.end_ns = now_ns
                ledger.release(one.aim, now_ns)
            ledger.drop(stretch, now_ns, all_of(stretch, saved=saved))
            self._seen.done[job] = one.saved = one.saved if saved else 0
            self._undone(job)
        one.turn += 1
        one.stretch = one.aim = None
        one.sources = frozenset()
        self._forget_speed(job, one)

    def _undone(self, job: int) -> None:
        """Iterations from here on have not been made, whatever was written down of them."""
        name = self._master.ledger.jobs[job].name
        self._master.undone.append((name, int(self._seen.done[job]), self._master.now_ns))
