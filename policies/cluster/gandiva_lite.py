"""Gandiva: jobs take turns while somebody waits; while nobody does, they move to better places.

At the end of a slice, jobs that have had one are suspended for whoever has waited the longest; jobs
that train leave when their iteration is over. These also have Gandiva's affinity and migration
(`gandiva_moves.py`), one at a time and by trial: a job whose iterations are not a twentieth shorter
where it has moved to stays there. With `pack: 2` jobs that wait may share the GPUs of others, by
trial too (`gandiva_packing.py`); who shares GPUs takes turns together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from basics.options import Option, flag
from policies.cluster.filling import by, wanting
from policies.cluster.gandiva_moves import affinity, migration
from policies.cluster.gandiva_packing import PastPacks, judged, noted, parted, trial
from policies.cluster.making_room import ranked
from policies.cluster.scheduler import (
    RUNNING,
    SUSPENDING,
    Action,
    Event,
    Ints,
    Resume,
    Ruling,
    Scheduler,
    Snapshot,
    Start,
    Suspend,
)

SLICE_NS = 60 * 10**9
GAIN = 0.05  # of an iteration, which a move has to bring


@dataclass(frozen=True)
class PastMoves:
    """What it remembers: since when jobs run or wait, and what moves have brought."""

    since_ns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # it runs, or not
    before_ns: Mapping[int, int] = field(default_factory=dict)  # iterations of jobs that moved
    settled: frozenset[int] = frozenset()  # jobs that moved for nothing
    packs: PastPacks = field(default_factory=PastPacks)


def decide(
    snapshot: Snapshot,
    event: Event,
    memory: PastMoves | None,
    slice_ns: int,
    migrate: bool,
    pack: int = 1,
) -> Ruling:
    now_ns, known = snapshot.time_ns, memory or PastMoves()
    since = np.concatenate([known.since_ns, snapshot.submitted_ns[len(known.since_ns) :]])
    if event.what == "suspended":
        since[list(event.jobs)] = now_ns
    before, settled = _judged(snapshot, event, known)
    waits = len(wanting(snapshot)) > 0
    look_ns = (now_ns // slice_ns + 1) * slice_ns if waits else None
    leaving = bool((snapshot.task_state == SUSPENDING).any())
    packs, actions = _packed(snapshot, event, known.packs, since) if pack > 1 else (known.packs, ())
    places = event.what != "landed" and not (event.what == "suspended" and leaving)
    if not actions and waits and places:  # at a slice's end all are placed at once
        actions = _turns(snapshot, event, since, slice_ns, packs)
    elif not actions and not waits and migrate and snapshot.training is not None:
        move = migration(snapshot, settled | packs.paired)
        if move is not None:
            actions = (move,)
            before = {**before, move.job: int(snapshot.training.iteration_ns[move.job])}
    for action in actions:
        if isinstance(action, Start | Resume):
            since[action.job] = now_ns
    return Ruling(actions, PastMoves(since, before, settled, packs), look_ns)


def _packed(
    snapshot: Snapshot, event: Event, past: PastPacks, since: Ints
) -> tuple[PastPacks, tuple[Action, ...]]:
    """At the end of a slice somebody who waits may join another, and then nothing else happens."""
    if snapshot.training is None:
        return past, ()
    past, apart = judged(noted(snapshot, event, past))
    waiting = by([since], wanting(snapshot))
    if apart or not len(waiting):
        return past, apart or parted(snapshot, past)
    found = trial(snapshot, past, waiting) if event.what == "looked" else None
    return (past, ()) if found is None else (found[0], (found[1],))


def _turns(
    snapshot: Snapshot, event: Event, since: Ints, slice_ns: int, packs: PastPacks
) -> tuple[Action, ...]:
    """Who has waited the longest is first, and who has run the longest gives way first."""
    now_ns, on = snapshot.time_ns, snapshot.running > 0
    rank = np.where(on, 2 * now_ns + 1 - since, since)
    turns = event.what == "looked"
    spared = on & (now_ns - since < slice_ns) if turns else on
    for guest, holder in packs.pairs:  # they leave together, when both are there and judged
        there = (snapshot.task_state[snapshot.tasks_of(guest)] == RUNNING).all()
        spared[guest] = True
        spared[holder] |= not there or (guest, holder) == packs.on_trial()
    order = None if snapshot.training is None else affinity(snapshot)
    ruled = ranked(snapshot, rank, spared, order)
    left = [packs.mate(action.job) for action in ruled if isinstance(action, Suspend)]
    return (*ruled, *(Suspend(job) for job in left if job is not None))


def _judged(
    snapshot: Snapshot, event: Event, memory: PastMoves
) -> tuple[Mapping[int, int], frozenset[int]]:
    """What is known of moves: a job that was measured after one has gained, or stays."""
    if event.what != "profiled" or snapshot.training is None:
        return memory.before_ns, memory.settled
    before, settled = dict(memory.before_ns), set(memory.settled)
    for job in event.jobs:
        was_ns = before.pop(job, 0)
        if was_ns and snapshot.training.iteration_ns[job] > (1 - GAIN) * was_ns:
            settled.add(job)
    return before, frozenset(settled)


SCHEDULER = Scheduler(
    name="gandiva-lite",
    title="Gandiva-lite",
    description="jobs take turns of a slice each while somebody waits, and move to better places",
    decide=decide,
    options={
        "slice": Option("how long a turn is", 10**6, 10**15, SLICE_NS, unit="ns"),
        "pack": Option("how many jobs that train may share GPUs, by trial", 1, 2, 1),
        "migrate": flag("whether jobs that train move where they are better off", default=True),
    },
    suspends=True,
)
