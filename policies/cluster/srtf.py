"""Shortest remaining time first: others are suspended for whoever needs the least more time."""

from typing import Any

import numpy as np

from policies.cluster.making_room import ranked
from policies.cluster.scheduler import Event, Floats, Ruling, Scheduler, Snapshot


def remaining(snapshot: Snapshot) -> Floats:
    """Time that each job needs yet if all of its unfinished tasks run at once."""
    assert snapshot.remaining_ns is not None
    unfinished = snapshot.waiting + snapshot.running + snapshot.suspended
    found: Floats = snapshot.remaining_ns / np.maximum(unfinished, 1)
    return found


def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
    if event.what == "landed":  # it runs where it was put: nothing has become free
        return Ruling()
    return Ruling(ranked(snapshot, remaining(snapshot)))


SCHEDULER = Scheduler(
    name="srtf",
    title="SRTF",
    description="the job with the least time left runs; others are suspended for it",
    decide=decide,
    needs_durations=True,
    suspends=True,
)
