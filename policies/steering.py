"""A policy that acts during the run: a rule that moves a training worker between bands.

A rule is pure and belongs to one worker. It is told what that worker can see of itself, its own
gradients and its own clock, and answers with a band and with the time at which it wants to look
again. Every engine asks it at the same moments and applies the answer in its own way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Gradient:
    """A layer's gradient that is not everywhere yet, as its worker sees it."""

    layer: int
    byte: int  # of the gradient
    ready_ns: int  # when it was, or will be, computed
    due_ns: int  # when the next forward pass wants it, if nothing but compute takes time


@dataclass(frozen=True)
class Sight:
    """What a worker sees of itself at one moment."""

    now_ns: int
    underway: Sequence[Gradient]  # one transfer at a time
    underway_byte: int  # what is left of it
    others: Sequence[Gradient]  # ready or to come, in their order


@dataclass(frozen=True)
class Decision:
    band: str
    look_ns: int | None = None  # look again then, whatever happens before


class Steering(Protocol):
    def learn(self, byte: int, took_ns: int) -> None:
        """A transfer of this many bytes is done."""

    def iterated(self, waited_ns: int) -> None:
        """An iteration is over; for so long it neither computed nor kept its pace."""

    def decide(self, sight: Sight) -> Decision:
        """The band for what is sent from now on."""
