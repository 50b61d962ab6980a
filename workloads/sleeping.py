"""Busy tasks of a cluster on one host: they hold it and send nothing. All they do is take time."""

from collections.abc import Callable
from functools import partial
from typing import Any

from workloads.loop import Loop


class Sleeping:
    """`say` tells the master that the time of a number that it gave has passed."""

    def __init__(self, loop: Loop, say: Callable[..., None]) -> None:
        self._loop, self._say = loop, say
        self._asleep: set[int] = set()

    def sleep(self, message: dict[str, Any]) -> None:
        self._asleep.add(message["number"])
        end_ns = self._loop.clock.now_ns() + message["ns"]
        self._loop.at(end_ns, partial(self._slept, message["number"]))

    def wake(self, message: dict[str, Any]) -> None:
        """Nobody waits for it any more."""
        self._asleep.discard(message["number"])

    def _slept(self, number: int) -> None:
        if number in self._asleep:
            self._asleep.discard(number)
            self._say("slept", number=number)
