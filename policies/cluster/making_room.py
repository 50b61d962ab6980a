"""Who is ranked higher runs: others are suspended for it, the lowest first, no more than needed.

A job that is on its hosts stays there until somebody with a higher rank needs its room.
"""

import numpy as np
import numpy.typing as npt

from policies.cluster.filling import HostOrder, Places, by, entered, first_fit, room, wanting
from policies.cluster.scheduler import (
    RUNNING,
    SUSPENDING,
    Action,
    Floats,
    Ints,
    Snapshot,
    Suspend,
)

Flags = npt.NDArray[np.bool_]


def ranked(
    snapshot: Snapshot,
    rank: Ints | Floats,
    spared: Flags | None = None,
    host_order: HostOrder | None = None,
) -> tuple[Action, ...]:
    """Start and resume by rank (the lowest number first), and suspend for it whom that takes.

    `spared`: jobs that are not suspended, whatever their rank. `host_order`: for what is free.
    """
    order = by([rank], wanting(snapshot))
    if not len(order):
        return ()
    places = Places(snapshot, order=host_order)
    victims = Victims(snapshot, rank, spared)
    actions: list[Action] = []
    kinds = snapshot.alike[order].tolist()
    open_kinds = set(kinds)
    for job, kind in zip(order.tolist(), kinds, strict=True):
        if kind not in open_kinds:
            continue
        hosts = places.take(job)
        actions += entered(snapshot, job, hosts)
        lacking = snapshot.wanting(job) - len(hosts)
        if lacking:
            found, given = victims.give_way(job, lacking, places.free)
            actions += [Suspend(one) for one in given]
            if not found:  # then those of its kind with a lower rank get nothing either
                open_kinds.discard(kind)
                if not open_kinds:
                    break
    return tuple(actions)


class Victims:
    """Running jobs, from the lowest rank up, and the room that comes when they are suspended."""

    def __init__(self, snapshot: Snapshot, rank: Ints | Floats, spared: Flags | None) -> None:
        self._snapshot, self._rank = snapshot, rank
        tasks = np.flatnonzero(snapshot.task_state == RUNNING)
        landed = np.bincount(snapshot.task_job[tasks], minlength=len(snapshot.tasks))
        may = (snapshot.running > 0) & (landed == snapshot.running)  # nobody who is still landing
        if spared is not None:
            may &= ~spared
        self._jobs = by([rank], np.flatnonzero(may))[::-1]
        self._ranks = rank[self._jobs]
        place = np.full(len(snapshot.tasks), -1)
        place[self._jobs] = np.arange(len(self._jobs))
        of_task = place[snapshot.task_job[tasks]]
        tasks, of_task = tasks[of_task >= 0], of_task[of_task >= 0]
        sorted_ = np.argsort(of_task, kind="stable")
        tasks, self._victim = tasks[sorted_], of_task[sorted_]
        self._host = snapshot.task_host[tasks]
        self._ends = np.searchsorted(self._victim, np.arange(len(self._jobs) + 1))
        self._there = np.ones(len(tasks), dtype=bool)  # of these tasks, those not yet suspended
        self._demand = snapshot.demand[snapshot.task_job[tasks]]
        self._coming = np.zeros_like(snapshot.free)  # room on its way, promised to nobody
        leaving = np.flatnonzero(snapshot.task_state == SUSPENDING)
        self._leave(snapshot.task_host[leaving], snapshot.demand[snapshot.task_job[leaving]])

    def give_way(self, job: int, lacking: int, free: Ints) -> tuple[bool, list[int]]:
        """Whether room for the job will come, and who is to be suspended for that.

        The fewest ranks from the lowest up that are enough; of these, who sits where it will run.
        """
        gang, demand = bool(self._snapshot.gang[job]), self._snapshot.demand[job]
        lower = int(np.searchsorted(-self._ranks, -self._rank[job], side="left"))
        most = int(self._places(free, demand, lower).sum())
        if most == 0 or (gang and most < lacking):
            return False, []
        wanted = min(lacking, most)
        low, high = -1, lower
        while high - low > 1:
            middle = (low + high) // 2
            if int(self._places(free, demand, middle).sum()) >= wanted:
                high = middle
            else:
                low = middle
        places = self._places(free, demand, high)
        hosts = first_fit(free, free, places, demand, wanted)
        given = self._suspended_at(np.unique(hosts), high)
        np.subtract.at(free, hosts, demand)
        np.add(self._coming, np.minimum(free, 0), out=self._coming)  # what comes pays the rest
        np.maximum(free, 0, out=free)
        return True, given

    def _places(self, free: Ints, demand: Ints, victims: int) -> Ints:
        """How many such tasks each host has room for when the lowest ranks are gone."""
        end = int(self._ends[victims])
        there = self._there[:end]
        hosts, asked = self._host[:end][there], self._demand[:end][there]
        left = free + self._coming
        for resource in np.flatnonzero(demand):
            freed = np.bincount(hosts, asked[:, resource], minlength=len(free))
            left[:, resource] += freed.astype(np.int64)
        return np.maximum(room(left, demand), 0)

    def _suspended_at(self, hosts: Ints, victims: int) -> list[int]:
        """Suspend those of the lowest ranks who are on one of these hosts."""
        end = int(self._ends[victims])
        here = self._there[:end] & np.isin(self._host[:end], hosts)
        chosen = np.unique(self._victim[:end][here])
        gone = np.flatnonzero(np.isin(self._victim[:end], chosen) & self._there[:end])
        self._there[gone] = False
        self._leave(self._host[gone], self._demand[gone])
        return [int(job) for job in self._jobs[chosen]]

    def _leave(self, hosts: Ints, demand: Ints) -> None:
        np.add.at(self._coming, hosts, demand)
