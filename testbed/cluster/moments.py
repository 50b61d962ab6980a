"""Where a cluster's time comes from: a simulation, a live clock, or a queue of moments alone."""

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

from workloads.loop import Loop


class Timeline(Protocol):
    @property
    def now_ns(self) -> int: ...

    def at(self, time_ns: int, callback: Callable[[], object]) -> None: ...


class Moments:
    """Time that goes from moment to moment: busy jobs need no more."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._ticket = count()

    def at(self, time_ns: int, callback: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (time_ns, next(self._ticket), callback))

    def run(self, until_ns: int, on_time: Callable[[int], None] = lambda time_ns: None) -> None:
        """Go through all moments before this one."""
        while self._queue and self._queue[0][0] < until_ns:
            time_ns, _, moment = heapq.heappop(self._queue)
            if time_ns != self.now_ns:
                on_time(time_ns)
            self.now_ns = time_ns
            moment()


ON_TIME_NS = 1_000


class LiveTime:
    """Of the loop; a moment has one time, however long it takes to think about it.

    One that was asked for has the time that was asked for, if it is not really late: a scheduler
    that looks every minute counts minutes.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.now_ns = 0

    def at(self, time_ns: int, callback: Callable[[], object]) -> None:
        self._loop.at(time_ns, partial(self.moment, callback, time_ns))

    def moment(self, callback: Callable[[], object], asked_ns: int | None = None) -> None:
        now_ns = self._loop.clock.now_ns()
        on_time = asked_ns is not None and now_ns - asked_ns < ON_TIME_NS
        self.now_ns = max(self.now_ns, asked_ns) if on_time and asked_ns is not None else now_ns
        callback()
