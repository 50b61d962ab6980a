"""One thread, one epoll, exact timers: the event loop that workers and generators live in.

asyncio and epoll's own timeouts round to a millisecond and select() may be late by a thousandth
of the wait; a timerfd is neither. All times are experiment time in nanoseconds: the clock knows
how much slower the real one runs (dilation).
"""

import ctypes
import heapq
import itertools
import os
import select
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

CLOCK_MONOTONIC = 1
TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)

READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
WRITE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR


@dataclass(frozen=True)
class Clock:
    """Experiment time: 0 at `epoch_ns` of the monotonic clock, running `dilation` times slower."""

    epoch_ns: int
    dilation: float = 1.0

    def now_ns(self) -> int:
        return int((time.monotonic_ns() - self.epoch_ns) / self.dilation)

    def real_ns(self, experiment_ns: int) -> int:
        return self.epoch_ns + int(experiment_ns * self.dilation)


class Loop:
    """Timers and sockets. Callbacks run one at a time; ties run in the order they were set."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._epoll = select.epoll()
        self._timer = _libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._epoll.register(self._timer, select.EPOLLIN | select.EPOLLET)
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self._armed_ns = -1
        self._running = False

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time_ns, next(self._counter), callback))

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler(events)` when the descriptor is ready; 0 events only watches for errors."""
        if descriptor in self._handlers:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        """Run until `stop`."""
        self._running = True
        while self._running:
            self._fire_due()
            if not self._running:
                break
            self._arm()
            for descriptor, events in self._epoll.poll():
                handler = self._handlers.get(descriptor)
                if handler is not None:
                    handler(events)

    def _fire_due(self) -> None:
        heap = self._heap
        while self._running and heap and heap[0][0] <= self.clock.now_ns():
            heapq.heappop(heap)[2]()

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, if that has changed."""
        next_ns = self._heap[0][0] if self._heap else -1
        if next_ns == self._armed_ns:
            return
        self._armed_ns = next_ns
        # Rounded up, so that the clock has reached the deadline when the timer fires.
        real_ns = max(1, self.clock.real_ns(next_ns) + 1) if next_ns >= 0 else 0
        setting = struct.pack("qqqq", 0, 0, *divmod(real_ns, 1_000_000_000))
        if _libc.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, setting, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
