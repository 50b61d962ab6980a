"""The processor cores of a host, shared by the tasks that compute there: pure but for a timer.

Every task gets a core of its own while there are enough, and else all get the same share of them:
processor sharing. So a stretch of compute takes longer while more tasks compute than there are
cores, and how long is known only when it ends.

All tasks run at one speed, so one number says how much each has computed since time zero, had it
been there all the time; a task ends when that number has grown by its length. It is a fraction:
whole nanoseconds times cores over tasks, exact however long a run is. Ends are rounded up to the
next nanosecond.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from weakref import WeakValueDictionary

At = Callable[[int, Callable[[], None]], None]


class Cores:
    def __init__(self, count: int, at: At) -> None:
        """`at`: call me back at this time."""
        self._count = count
        self._at = at
        self._now_ns = 0
        self._done_ns = Fraction(0)  # what a task that was always there would have computed
        # By the number at which each ends; who came first, first.
        self._tasks: list[tuple[Fraction, int, Callable[[int], None]]] = []
        self._counter = itertools.count()
        self._wake_ns: int | None = None

    def compute(self, start_ns: int, length_ns: int, done: Callable[[int], None]) -> None:
        """A task computes so much from now on; `done` hears when it was through."""
        self._advance(start_ns)
        end = self._done_ns + length_ns
        heapq.heappush(self._tasks, (end, next(self._counter), done))
        self._await_first()

    def _advance(self, now_ns: int) -> None:
        if now_ns > self._now_ns:  # a task that was noticed late began before others did
            self._done_ns += (now_ns - self._now_ns) * self._speed
            self._now_ns = now_ns

    @property
    def _speed(self) -> Fraction:
        return Fraction(min(self._count, len(self._tasks)), max(1, len(self._tasks)))

    def _first_end_ns(self) -> int:
        left = max(Fraction(0), self._tasks[0][0] - self._done_ns)
        return self._now_ns + -(-left // self._speed)

    def _await_first(self) -> None:
        """Wake up when the first task ends, unless that is going to happen anyway."""
        if self._tasks:
            end_ns = self._first_end_ns()
            if self._wake_ns is None or end_ns < self._wake_ns:
                self._wake_ns = end_ns
                self._at(end_ns, partial(self._look, end_ns))

    def _look(self, due_ns: int) -> None:
        """Whoever is through by the time that was asked for is told so; then wait for the next."""
        if due_ns == self._wake_ns:  # nobody has ended it sooner since
            self._wake_ns = None
            self._advance(due_ns)
            through = []
            while self._tasks and self._tasks[0][0] <= self._done_ns:
                through.append(heapq.heappop(self._tasks)[-1])
            for done in through:
                done(due_ns)
            self._await_first()


class HostCores:
    """What workers of a host compute on: the cores that all share, or GPUs that some share."""

    def __init__(self, count: int | None, at: At) -> None:
        self._cores = Cores(count, at) if count else None
        self._at = at
        self._gpus: WeakValueDictionary[int, Cores] = WeakValueDictionary()  # while workers have it

    def of(self, gpus: Sequence[int], worker: int) -> Cores | None:
        """`gpus`: of each worker of its job, by number, if jobs may be on the same ones."""
        if worker >= len(gpus):  # none are told apart, or it is a server
            return self._cores
        gpu = self._gpus.get(gpus[worker]) or Cores(1, self._at)
        self._gpus[gpus[worker]] = gpu
        return gpu
