"""Gandiva's time slices: as long as somebody waits, jobs take turns on the hosts.

At the end of a slice, jobs that have had one are suspended for whoever has waited the longest.
Affinity, migration and packing by trial are for jobs whose speed comes out of the network, and are
not here.
"""

import numpy as np

from basics.options import Option
from policies.cluster.filling import wanting
from policies.cluster.making_room import ranked
from policies.cluster.scheduler import (
    SUSPENDING,
    Event,
    Ints,
    Resume,
    Ruling,
    Scheduler,
    Snapshot,
    Start,
)

SLICE_NS = 60 * 10**9


def decide(snapshot: Snapshot, event: Event, memory: Ints | None, slice_ns: int) -> Ruling:
    """The memory: since when each job runs, or does not."""
    now_ns = snapshot.time_ns
    known = np.zeros(0, dtype=np.int64) if memory is None else memory
    since = np.concatenate([known, snapshot.submitted_ns[len(known) :]])
    if event.what == "suspended":
        since[list(event.jobs)] = now_ns
    waits = len(wanting(snapshot)) > 0
    look_ns = (now_ns // slice_ns + 1) * slice_ns if waits else None
    leaving = bool((snapshot.task_state == SUSPENDING).any())
    if not waits or event.what == "landed" or (event.what == "suspended" and leaving):
        return Ruling((), since, look_ns)  # at the turn's end everybody is placed at once
    on = snapshot.running > 0
    # Who has waited the longest is first, and who has run the longest gives way first.
    rank = np.where(on, 2 * now_ns + 1 - since, since)
    turns = event.what == "looked"
    actions = ranked(snapshot, rank, spared=on & (now_ns - since < slice_ns) if turns else on)
    for action in actions:
        if isinstance(action, Start | Resume):
            since[action.job] = now_ns
    return Ruling(actions, since, look_ns)


SCHEDULER = Scheduler(
    name="gandiva-lite",
    title="Gandiva-lite (slices)",
    description="jobs take turns of a slice each while somebody waits",
    decide=decide,
    options={"slice": Option("how long a turn is", 10**6, 10**15, SLICE_NS, unit="ns")},
    suspends=True,
)
