"""What a scheduler sees of jobs that train: how far they are, how fast, and what they send.

A training job is a gang: its tasks are its workers. It goes by whole iterations: it is suspended,
moved and shifted between two of them, and what it has done is counted in them. Its speed comes out
of the network, so nobody knows it beforehand; what has been measured is here for everybody. How
many iterations are left is for those who need durations, what an iteration computes and sends for
those who need traffic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Loads = Callable[[int, tuple[int, ...]], Mapping[str, int]]


@dataclass(frozen=True)
class Traffic:
    """What an iteration computes and sends. Columns have an entry for each job; 0 if it is busy."""

    compute_ns: Ints  # of one worker
    sent_byte: Ints  # by the host that sends the most, if every worker has one of its own
    communicate_ns: Ints  # how long that takes on a cable that nobody else uses
    # Of a job, if its tasks were on these hosts: bytes of an iteration on each link, as
    # "h1->s1"; where there are several ways, those that its connections would take.
    loads: Loads
    link_bps: Mapping[str, int]  # of each link, by the same names


@dataclass(frozen=True)
class TrainingView:
    """Columns have an entry for each job that is there, like those of the snapshot."""

    trains: npt.NDArray[np.bool_]  # else it is busy, and has 0 in all other columns
    iterations_done: Ints  # whole ones; they are never lost
    iteration_ns: Ints  # the mean of the last few where it runs now; 0: not measured (yet)
    checkpoint_byte: Ints  # what a host that was not its last has to get before it goes on there
    shift_ns: Ints  # all its shifts so far, added up
    band: Ints  # that it sends in: which one of …
    bands: tuple[str, ...]  # … those of the link policy, first served first
    steered: bool  # the link policy moves jobs between bands itself: prioritise is not allowed
    rack: Ints  # of each host: hosts below one switch have the same number
    iterations_left: Ints | None = None  # only for those who need durations
    traffic: Traffic | None = None  # only for those who need it
