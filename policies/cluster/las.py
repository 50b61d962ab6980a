"""Least attained service, discretised (Tiresias): who has had little goes before who has had much.

A job's service is its GPUs (or its tasks, if it has no GPU) times the time that they worked. Jobs
with less than `threshold` are in the first queue, with less than ten times that in the second, and
so on; within a queue whoever runs goes on, and the others run as they came. So a job loses its
place a few times at most.
"""

from typing import Any

import numpy as np

from basics.options import Option
from basics.resources import GPU, THOUSANDTHS
from policies.cluster.filling import wanting
from policies.cluster.making_room import ranked
from policies.cluster.scheduler import Event, Ints, Ruling, Scheduler, Snapshot

FACTOR = 10  # from one queue's threshold to the next
HOUR_NS = 3600 * 10**9


def weight(snapshot: Snapshot) -> Ints:
    """What a task's time counts: its GPUs in thousandths, or as much as one."""
    gpus = snapshot.demand[:, GPU]
    return np.where(gpus > 0, gpus, THOUSANDTHS)


def decide(snapshot: Snapshot, event: Event, memory: Any, threshold_ns: int, queues: int) -> Ruling:
    service = snapshot.attained_ns * (weight(snapshot) / THOUSANDTHS)
    bounds = threshold_ns * float(FACTOR) ** np.arange(queues - 1)
    queue = np.searchsorted(bounds, service, side="right")
    actions = () if event.what == "landed" else ranked(snapshot, queue)
    if not len(wanting(snapshot)):
        return Ruling(actions)
    return Ruling(actions, look_ns=_next_crossing(snapshot, service, bounds, queue))


def _next_crossing(snapshot: Snapshot, service: Any, bounds: Any, queue: Ints) -> int | None:
    """When the first running job falls into the next queue."""
    may = (snapshot.running > 0) & (queue < len(bounds))
    jobs = np.flatnonzero(may)
    if not len(jobs):
        return None
    pace = snapshot.running[jobs] * weight(snapshot)[jobs] / THOUSANDTHS
    after = np.ceil((bounds[queue[jobs]] - service[jobs]) / pace)
    return snapshot.time_ns + max(int(after.min()), 1)


SCHEDULER = Scheduler(
    name="las",
    title="LAS",
    description="the job with the least GPU time so far runs (in queues, after Tiresias)",
    decide=decide,
    options={
        "threshold": Option(
            "the first queue's end, in GPU time", 10**9, 10**18, HOUR_NS, unit="ns"
        ),
        "queues": Option("how many", 2, 10, 2),
    },
    suspends=True,
)
