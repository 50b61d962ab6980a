"""What a scheduler is: a rule that is told what happened in a cluster and says what is to be done.

A scheduler is pure. It gets a snapshot, the event and its own memory, and gives back a decision:
what is to be done now, what it wants to remember, and when it wants to look again if nothing
happens. The testbed does what was decided, after having checked it (testbed/cluster/master.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from basics.options import Options, Values, keywords
from policies.cluster.training_view import TrainingView

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WAITING, LANDING, RUNNING, SUSPENDING, SUSPENDED, DONE = range(6)  # states of a task
NEVER = np.iinfo(np.int64).max  # when a job without a deadline is due, what one without end lacks

Happened = Literal["arrived", "finished", "profiled", "suspended", "landed", "looked"]


@dataclass(frozen=True)
class Event:
    """What happened to some jobs; `looked`: nothing did, but the scheduler had asked to be woken.

    `finished`: some of its tasks are done. `suspended`: its tasks have left their hosts. `landed`:
    they run again after a resume or a move. `profiled`: what a training job's iterations take where
    it runs now is known; it is told once after every start, resumption and move, and whenever
    others have come to its GPUs or left them.
    """

    what: Happened
    jobs: tuple[int, ...] = ()  # several, if one ruling suspended or resumed them


@dataclass(frozen=True)
class Snapshot:
    """The cluster at this moment, for as long as it takes to decide; nothing in it can be written.

    Jobs are numbered in the order in which they came; columns have an entry for each that is there.
    The tasks of a job stand in a row in `task_state` and `task_host`, from `first_task` on, and all
    of them need the same. Amounts are in the order of basics.resources.
    """

    time_ns: int
    capacity: Ints  # of each host (rows), of each resource
    free: Ints
    submitted_ns: Ints
    deadline_ns: Ints  # NEVER: it has none
    demand: Ints  # of one task of each job (rows), of each resource
    gang: npt.NDArray[np.bool_]  # all of its tasks run together or none does
    alike: Ints  # jobs with the same demand that place as many tasks at once have the same number
    tasks: Ints  # how many the job has, and of these …
    waiting: Ints
    running: Ints  # … on their hosts: those that land are counted too
    suspended: Ints
    attained_ns: Ints  # work done by its tasks so far, added up
    first_task: Ints
    task_state: Ints
    task_job: Ints
    task_host: Ints  # where it is, or was last; -1: nowhere yet
    # Work left, added up; only for those who need durations. Of a training job: its iterations
    # left times what one takes, as measured where it runs or else as calculated for it alone.
    remaining_ns: Ints | None = None
    training: TrainingView | None = None  # None: all jobs of this cluster are busy

    @cached_property
    def share(self) -> Floats:
        """Of one task of each job, of each resource: its part of the first host."""
        found: Floats = self.demand / np.maximum(self.capacity[0], 1)
        return found

    def tasks_of(self, job: int) -> slice:
        first = int(self.first_task[job])
        return slice(first, first + int(self.tasks[job]))

    def wanting(self, job: int) -> int:
        """How many of its tasks could be placed: those that wait or are suspended."""
        return int(self.waiting[job] + self.suspended[job])

    def left(self, job: int) -> Ints:
        """The hosts that its suspended tasks were on, in the order in which they are resumed."""
        own = self.tasks_of(job)
        found: Ints = self.task_host[own][self.task_state[own] == SUSPENDED]
        return found


# ---- decisions


@dataclass(frozen=True)
class Start:
    """The job's next tasks that never ran begin, one on each of these hosts (a host may repeat).

    `beside`: a training job that runs on just these hosts, whose GPUs they share task by task, if
    the placement may pack. All others get GPUs of their own.
    """

    job: int
    hosts: tuple[int, ...]
    beside: int | None = None


@dataclass(frozen=True)
class Suspend:
    """All running tasks of the job leave their hosts; what they did is kept.

    A training job leaves when its iteration is over.
    """

    job: int


@dataclass(frozen=True)
class Resume:
    """The job's next suspended tasks go on, one on each of these hosts.

    Hosts that a training job was not on get its checkpoint first, through the network.
    """

    job: int
    hosts: tuple[int, ...]
    beside: int | None = None  # as in Start


@dataclass(frozen=True)
class Move:
    """All running tasks of the job go on elsewhere: one on each of these hosts.

    The new hosts are held from now on, the old ones until it has left: a training job when its
    iteration is over and its checkpoint is gone.
    """

    job: int
    hosts: tuple[int, ...]


@dataclass(frozen=True)
class Shift:
    """The job's next iteration begins later by this much; for jobs that have iterations."""

    job: int
    by_ns: int


@dataclass(frozen=True)
class Prioritise:
    """What the job sends goes into another band; for jobs that send."""

    job: int
    band: str


@dataclass(frozen=True)
class Reject:
    """The job will never be run."""

    job: int


Action = Start | Suspend | Resume | Move | Shift | Prioritise | Reject


@dataclass(frozen=True)
class Ruling:
    """What is to be done, in this order; and when to look again, which each decision says anew."""

    actions: tuple[Action, ...] = ()
    memory: Any = None
    look_ns: int | None = None  # experiment time; None: at the next event


@dataclass(frozen=True)
class Scheduler:
    """A rule for which job runs where and when. `decide` gets its options by keyword.

    One that does not say that it needs durations, or traffic, does not get to know them.
    """

    name: str
    title: str
    description: str
    decide: Callable[..., Ruling]
    options: Options = field(default_factory=dict)
    chosen: Values = field(default_factory=dict)  # what a file says; the rest is by default
    needs_durations: bool = False
    needs_traffic: bool = False
    suspends: bool = False

    def told(self, chosen: Values) -> "Scheduler":
        """This scheduler with some of its options chosen."""
        return replace(self, chosen=dict(chosen))

    @property
    def pack(self) -> int:
        """How many jobs may share GPUs; 1, unless it has such an option."""
        return int(keywords(self.options, self.chosen).get("pack", 1))

    def decided(self, snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        return self.decide(snapshot, event, memory, **keywords(self.options, self.chosen))
