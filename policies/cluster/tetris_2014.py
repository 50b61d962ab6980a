"""Tetris as its paper has it (SIGCOMM 2014): a host with room takes the task that fills it best.

The score of a task at a host is the dot product of what is free and what it needs, both as shares
of the host, less `remaining` times the work that its job has left, scaled so that both terms are as
large on average. `fairness` keeps that part of the jobs, those that hold the most already, out of
the choice.
"""

from typing import Any

import numpy as np

from basics.options import Option
from policies.cluster.filling import entered, wanting
from policies.cluster.rooms import room
from policies.cluster.scheduler import Action, Event, Floats, Ints, Ruling, Scheduler, Snapshot


def decide(
    snapshot: Snapshot, event: Event, memory: Any, remaining: float, fairness: float
) -> Ruling:
    jobs = _candidates(snapshot, fairness)
    if not len(jobs):
        return Ruling()
    return Ruling(tuple(_Packing(snapshot, jobs, remaining).actions()))


def _candidates(snapshot: Snapshot, fairness: float) -> Ints:
    """Jobs that want hosts, without those that hold the largest part of the cluster already."""
    jobs = wanting(snapshot)
    if not fairness:
        return jobs
    held = (snapshot.share[jobs] * snapshot.running[jobs, None]).max(axis=1)
    kept = int(np.ceil((1 - fairness) * len(jobs)))
    return np.sort(jobs[np.argsort(held, kind="stable")[:kept]])


def work_left(snapshot: Snapshot, jobs: Ints) -> Floats:
    """Of each job, in shares of a host times time."""
    assert snapshot.remaining_ns is not None
    found: Floats = snapshot.remaining_ns[jobs] * snapshot.share[jobs].sum(axis=1)
    return found


class _Packing:
    """Jobs of a kind differ in their work left alone: of each, the one with the least is next."""

    def __init__(self, snapshot: Snapshot, jobs: Ints, remaining: float) -> None:
        self._snapshot = snapshot
        self._free = snapshot.free.copy()
        left = work_left(snapshot, jobs)
        order = np.lexsort([jobs, left])
        queues: dict[int, list[tuple[int, float]]] = {}
        for job, work in zip(jobs[order[::-1]].tolist(), left[order[::-1]].tolist(), strict=True):
            queues.setdefault(int(snapshot.alike[job]), []).append((job, work))
        self._queues = list(queues.values())  # by kind, the least work last
        self._placed: dict[int, list[int]] = {}
        self._asks = snapshot.demand[[queue[-1][0] for queue in self._queues]]
        self._whole = np.maximum(snapshot.capacity, 1)
        self._shares = self._asks / self._whole[0]
        self._fits = np.array([room(self._free, ask) > 0 for ask in self._asks])
        aligned = (self._free / self._whole) @ self._shares.T
        mean_left = float(left.mean())
        self._price = remaining * float(aligned.mean()) / mean_left if mean_left else 0.0

    def actions(self) -> list[Action]:
        while True:
            open_hosts = self._fits.any(axis=0)
            if not open_hosts.any():
                break
            host = int(open_hosts.argmax())
            kinds = np.flatnonzero(self._fits[:, host])
            left = np.array([self._queues[kind][-1][1] for kind in kinds.tolist()])
            aligned = self._shares[kinds] @ (self._free[host] / self._whole[host])
            self._place(int(kinds[np.argmax((aligned - self._price * left).round(12))]), host)
        placed = self._placed.items()
        return [one for job, hosts in placed for one in entered(self._snapshot, job, hosts)]

    def _place(self, kind: int, host: int) -> None:
        """A task of the first job of this kind on this host; of a gang, the others elsewhere."""
        snapshot, queue = self._snapshot, self._queues[kind]
        job, _ = queue[-1]
        demand, wanted = snapshot.demand[job], snapshot.wanting(job)
        hosts = np.array([host])
        if snapshot.gang[job]:
            places = room(self._free, demand)
            if int(places.sum()) < wanted:
                self._fits[kind] = False
                return
            order = np.argsort(np.arange(len(places)) != host, kind="stable")
            hosts = np.repeat(order, places[order])[:wanted]
        np.subtract.at(self._free, hosts, demand)
        had = self._placed.setdefault(job, [])
        had += hosts.tolist()
        if len(had) == wanted:
            queue.pop()
        for touched in np.unique(hosts):
            room_there = (self._asks <= self._free[touched]).all(axis=1)
            self._fits[:, touched] &= room_there
        if not queue:
            self._fits[kind] = False


SCHEDULER = Scheduler(
    name="tetris-2014",
    title="Tetris (2014)",
    description="a host with room takes the task that fills it best, of jobs with little work left",
    decide=decide,
    options={
        "remaining": Option(
            "what little work left counts against a good fit", 0, 100, 1, step=None
        ),
        "fairness": Option(
            "part of the jobs that is kept out of the choice", 0, 0.99, 0, step=None
        ),
    },
    needs_durations=True,
)
