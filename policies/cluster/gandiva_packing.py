"""Gandiva's packing by trial: two jobs on the same GPUs, kept together if that beats taking turns.

A job that waits is put beside one that runs, where both have been measured alone. When both have
been measured together, their speeds, each over its speed alone, are added up. Turns would give one
in all; a pair that has not a twentieth more is parted and not tried again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from basics.resources import GPU
from policies.cluster.rooms import room
from policies.cluster.scheduler import (
    RUNNING,
    Event,
    Ints,
    Resume,
    Snapshot,
    Start,
    Suspend,
)

GAIN = 0.05  # over turns, which a pair has to bring

Pair = tuple[int, int]  # who came to whom


@dataclass(frozen=True)
class PastPacks:
    """What it remembers: who shares GPUs, who was measured how, and which pairs were worth it."""

    alone_ns: Mapping[int, int] = field(default_factory=dict)  # an iteration of each that is known
    together_ns: Mapping[int, int] = field(default_factory=dict)  # of those in pairs
    pairs: frozenset[Pair] = frozenset()
    worth: Mapping[frozenset[int], bool] = field(default_factory=dict)

    @property
    def paired(self) -> frozenset[int]:
        return frozenset(job for pair in self.pairs for job in pair)

    @property
    def guests(self) -> frozenset[int]:
        return frozenset(guest for guest, _ in self.pairs)

    def mate(self, job: int) -> int | None:
        return next((b if a == job else a for a, b in self.pairs if job in (a, b)), None)

    def on_trial(self) -> Pair | None:
        new = (pair for pair in sorted(self.pairs) if frozenset(pair) not in self.worth)
        return next(new, None)


def noted(snapshot: Snapshot, event: Event, past: PastPacks) -> PastPacks:
    """What is known after an event: pairs that have come apart, and what was measured."""
    assert snapshot.training is not None
    gone = {job for pair in past.pairs for job in pair if not snapshot.running[job]}
    pairs = frozenset(pair for pair in past.pairs if gone.isdisjoint(pair))
    past = replace(past, pairs=pairs)
    together = {job: past.together_ns[job] for job in past.paired if job in past.together_ns}
    alone = dict(past.alone_ns)
    if event.what == "profiled":
        for job in event.jobs:
            measured = together if job in past.paired else alone
            measured[job] = int(snapshot.training.iteration_ns[job])
    return replace(past, alone_ns=alone, together_ns=together)


def judged(past: PastPacks) -> tuple[PastPacks, tuple[Suspend, ...]]:
    """The pair on trial, once both are measured: it stays together, or who came leaves."""
    pair = past.on_trial()
    if pair is None or any(job not in past.together_ns for job in pair):
        return past, ()
    speed = sum(past.alone_ns[job] / past.together_ns[job] for job in pair)
    kept = speed > 1 + GAIN
    past = replace(past, worth={**past.worth, frozenset(pair): kept})
    return past, () if kept else (Suspend(pair[0]),)


def trial(
    snapshot: Snapshot, past: PastPacks, waiting: Ints
) -> tuple[PastPacks, Start | Resume] | None:
    """Who has waited the longest and could join somebody does, if no other pair is on trial.

    Pairs that were worth it come first, then those that nobody has tried.
    """
    if past.on_trial() is not None:
        return None
    found = sorted(
        (not past.worth.get(frozenset(pair), False), at, pair[1])
        for at, guest in enumerate(waiting.tolist())
        for pair in _could_join(snapshot, past, guest)
    )
    if not found:
        return None
    _, at, holder = found[0]
    guest = int(waiting[at])
    hosts = tuple(snapshot.task_host[snapshot.tasks_of(holder)].tolist())
    enter = Resume if snapshot.suspended[guest] else Start
    return replace(past, pairs=past.pairs | {(guest, holder)}), enter(guest, hosts, holder)


def _could_join(snapshot: Snapshot, past: PastPacks, guest: int) -> Iterator[Pair]:
    assert snapshot.training is not None
    if guest not in past.alone_ns or snapshot.wanting(guest) != snapshot.tasks[guest]:
        return
    needs = snapshot.demand[guest].copy()
    needs[GPU] = 0  # all else has to be there
    for holder in sorted(past.alone_ns.keys() - past.paired - {guest}):
        own = snapshot.tasks_of(holder)
        if (
            snapshot.tasks[holder] == snapshot.tasks[guest]
            and snapshot.demand[holder][GPU] == snapshot.demand[guest][GPU]
            and (snapshot.task_state[own] == RUNNING).all()
            and past.worth.get(frozenset((guest, holder)), True)
            and _holds(snapshot, snapshot.task_host[own], needs)
        ):
            yield guest, holder


def _holds(snapshot: Snapshot, hosts: Ints, needs: Ints) -> bool:
    asked = np.zeros_like(snapshot.free)
    np.add.at(asked, hosts, needs)
    return bool((asked <= snapshot.free).all())


def parted(snapshot: Snapshot, past: PastPacks) -> tuple[Suspend, ...]:
    """Nobody waits: a pair that has room for two again is one no longer."""
    for guest, _ in sorted(past.pairs):
        runs = (snapshot.task_state[snapshot.tasks_of(guest)] == RUNNING).all()
        if runs and room(snapshot.free, snapshot.demand[guest]).sum() >= snapshot.tasks[guest]:
            return (Suspend(guest),)
    return ()
