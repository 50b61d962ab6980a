"""One thread, one epoll, exact timers: the event loop that workers and generators live in.

asyncio and epoll's own timeouts round to a millisecond and select() may be late by a thousandth
of the wait; a timerfd is neither. All times are experiment time in nanoseconds: the clock knows
how much slower the real one runs (dilation).

In the virtual kernel each reading of the clock takes a nanosecond, and TCP makes more of it. So
what only observes a run is watched quietly, and takes its time from the `QuietClock`: a run that is
observed is then the same, to the nanosecond, as one that is not.
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
S_NS = 1_000_000_000
NEVER_NS = 10**9 * S_NS  # thirty years

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


class Timer:
    """A timerfd of the monotonic clock: readable once its time has come."""

    def __init__(self) -> None:
        self.descriptor = _libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, real_ns: int, every_ns: int = 0) -> None:
        """To an instant, and again every so often; 0 is never."""
        setting = struct.pack("qqqq", *divmod(every_ns, S_NS), *divmod(real_ns, S_NS))
        if _libc.timerfd_settime(self.descriptor, TFD_TIMER_ABSTIME, setting, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def left_ns(self) -> int:
        """Until its time has come."""
        found = ctypes.create_string_buffer(32)
        if _libc.timerfd_gettime(self.descriptor, found):
            raise OSError(ctypes.get_errno(), "timerfd_gettime")
        _, _, seconds, ns = struct.unpack("qqqq", found.raw)
        return int(seconds) * S_NS + int(ns)


class QuietClock:
    """Experiment time, without reading a clock: a timer that never comes knows how far off it is.

    The kernel answers that one with interrupts disabled, where the virtual clock stands still.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._never_ns = clock.epoch_ns + NEVER_NS
        self._timer = Timer()
        self._timer.set(self._never_ns)
        self.now_ns()  # the first time pages are loaded, which takes two nanoseconds

    def now_ns(self) -> int:
        real_ns = self._never_ns - self._timer.left_ns()
        return int((real_ns - self._clock.epoch_ns) / self._clock.dilation)


class Loop:
    """Timers and sockets. Callbacks run one at a time; ties run in the order they were set."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._epoll = select.epoll()
        self._timer = Timer()
        self._epoll.register(self._timer.descriptor, select.EPOLLIN | select.EPOLLET)
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._quiet: set[int] = set()
        self._fresh: set[int] = set()  # watched since what is ready was asked for
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
            self._fresh.add(descriptor)
        self._handlers[descriptor] = handler

    def watch_quietly(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """The same for a handler that reads no clock and sets no timer."""
        self.watch(descriptor, events, handler)
        self._quiet.add(descriptor)

    def unwatch(self, descriptor: int) -> None:
        self._quiet.discard(descriptor)
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
            for descriptor, events in self._ready():
                handler = self._handlers.get(descriptor)
                # What was ready may have been closed since, and its number given to another.
                if handler is not None and descriptor not in self._fresh:
                    handler(events)

    def _ready(self) -> list[tuple[int, int]]:
        """Wait, and go on waiting while only what is watched quietly is ready."""
        while True:
            self._fresh.clear()
            ready = self._epoll.poll()
            loud = [one for one in ready if one[0] not in self._quiet]
            for descriptor, events in ready:
                if descriptor in self._quiet:
                    self._handlers[descriptor](events)
            if loud:
                return loud

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
        self._timer.set(real_ns)
