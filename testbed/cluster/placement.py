"""Where a live cluster's job is now, and what is on its way to where it will be."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.sockets import TaskError


@dataclass
class Placement:
    """A job where it is now, and what is being agreed about it."""

    name: str
    epoch: int
    ranks: dict[int, list[int]]  # by host
    standing: set[int] = field(default_factory=set)  # hosts that have said so
    held: dict[int, int] = field(default_factory=dict)  # host -> next iteration
    rested: set[int] = field(default_factory=set)
    states: set[str | None] = field(default_factory=set)  # of a real stack's ranks that rest
    gone: bool = False
    later: deque[dict[str, int]] = field(default_factory=deque)  # what is to be agreed
    agreeing: dict[str, int] | None = None

    @property
    def working(self) -> set[int]:
        return set(self.ranks)

    def rests(self, host: int, state: str | None) -> None:
        """Any of its ranks may give its state to any other: it is the same everywhere."""
        self.rested.add(host)
        self.states.add(state)
        if len(self.states) > 1:
            raise TaskError(f"{self.name}: its workers have different states")


class Fetch(NamedTuple):
    """A checkpoint on its way to a host."""

    job: int
    target: int
    done: Callable[[], None]
