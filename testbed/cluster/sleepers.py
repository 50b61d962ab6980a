"""Busy tasks of a live cluster: the daemons of their hosts sleep for them.

A stretch is over when every daemon that slept for it has said so; the master's word to stop may
cross theirs, and then theirs is not heard.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from testbed.cluster.ledger import TaskStretch


class Says(Protocol):
    def __call__(self, host: int, do: str, **details: object) -> None: ...


@dataclass
class Asleep:
    stretch: TaskStretch
    awaited: set[int]  # hosts
    done: Callable[[], None]


class Sleepers:
    def __init__(self, say: Says) -> None:
        self._say = say
        self._asleep: dict[int, Asleep] = {}
        self._numbers: dict[TaskStretch, int] = {}
        self._next = count()

    def work(self, stretch: TaskStretch, done: Callable[[], None]) -> None:
        number, hosts = next(self._next), set(stretch.hosts.tolist())
        self._asleep[number] = Asleep(stretch, hosts, done)
        self._numbers[stretch] = number
        for host in sorted(hosts):
            self._say(host, "sleep", number=number, ns=stretch.end_ns - stretch.start_ns)

    def stop(self, stretch: TaskStretch) -> None:
        """If it sleeps: its tasks are suspended, moved or lost."""
        number = self._numbers.pop(stretch, None)
        if number is not None:
            for host in sorted(self._asleep.pop(number).awaited):
                self._say(host, "wake", number=number)

    def slept(self, host: int, number: int) -> None:
        one = self._asleep.get(number)
        if one is not None:
            one.awaited.discard(host)
            if not one.awaited:
                del self._asleep[number], self._numbers[one.stretch]
                one.done()

    def lose(self, host: int) -> None:
        """Nobody waits for it any more; its tasks were cut off from stretches that go on."""
        for number in list(self._asleep):
            self.slept(host, number)
