"""Who is ranked higher runs: others are suspended for it, the lowest first, no more than needed.

A job that is on its hosts stays there until somebody with a higher rank needs its room.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from policies.cluster.filling import HostOrder, Places, by, entered, wanting
from policies.cluster.rooms import DemandRoom, Needs, Rooms, Row, first_fit, room
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
Found = tuple[int, dict[int, int]]  # so many of the lowest ranks; places on hosts without them
WALKED = 32  # victims that are looked at one by one; more are faster searched through than walked


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
    victims = Victims(snapshot, rank, spared, places.rooms)
    actions: list[Action] = []
    kinds = snapshot.alike[order].tolist()
    open_kinds = set(kinds)
    for job, kind in zip(order.tolist(), kinds, strict=True):
        if kind not in open_kinds:
            continue
        hosts = places.take(job)
        if hosts:
            victims.taken(job, hosts)
            actions += entered(snapshot, job, hosts)
        lacking = snapshot.wanting(job) - len(hosts)
        if lacking:
            found, given = victims.give_way(job, lacking)
            actions += [Suspend(one) for one in given]
            if not found:  # then those of its kind with a lower rank get nothing either
                open_kinds.discard(kind)
                if not open_kinds:
                    break
    return tuple(actions)


class Victims:
    """Running jobs, from the lowest rank up, and the room that comes when they are suspended."""

    def __init__(
        self, snapshot: Snapshot, rank: Ints | Floats, spared: Flags | None, free: Rooms
    ) -> None:
        self._snapshot, self._rank, self._free = snapshot, rank, free
        tasks = np.flatnonzero(snapshot.task_state == RUNNING)
        landed = np.bincount(snapshot.task_job[tasks], minlength=len(snapshot.tasks))
        may = (snapshot.running > 0) & (landed == snapshot.running)  # nobody who is still landing
        if spared is not None:
            may &= ~spared
        self._jobs = by([rank], np.flatnonzero(may))[::-1]
        self._ranks = -rank[self._jobs]  # rising
        self._gone = np.zeros(len(self._jobs), dtype=bool)  # suspended by this ruling
        self._first = 0  # of those that are not
        self._hosts: dict[int, list[int]] = {}
        self._kinds: dict[int, Needs] = {}
        # What will be free when all have left who are on their way, less what is promised.
        leaving = np.flatnonzero(snapshot.task_state == SUSPENDING)
        coming = snapshot.free.copy()
        np.add.at(coming, snapshot.task_host[leaving], snapshot.demand[snapshot.task_job[leaving]])
        self._coming = Rooms(coming)

    def taken(self, job: int, hosts: list[int]) -> None:
        """DemandRoom that was free is so no longer."""
        self._coming.take(hosts, self._needs(job))

    def give_way(self, job: int, lacking: int) -> tuple[bool, list[int]]:
        """Whether room for the job will come, and who is to be suspended for that.

        The fewest ranks from the lowest up that are enough; of these, who sits where it will run.
        """
        lower = int(np.searchsorted(self._ranks, -self._rank[job], side="left"))
        asked = self._coming.of(self._snapshot.demand[job])
        found = self._walked(asked, lower, lacking)
        if found is None:
            found = self._searched(self._snapshot.demand[job], lower, lacking)
        ranks, places = found
        most = sum(places.values())
        if most == 0 or (self._snapshot.gang[job] and most < lacking):
            return False, []
        hosts = first_fit(dict(sorted(places.items())), min(lacking, most))
        given = self._sitting(set(hosts), ranks)
        for at in given:
            self._gone[at] = True
            self._coming.give(self._hosts_of(at), self._needs(int(self._jobs[at])))
        self._coming.take(hosts, asked.needs)
        self._free.take(hosts, asked.needs)
        self._free.at_least_nothing(set(hosts))  # what comes pays the rest
        return True, [int(self._jobs[at]) for at in given]

    def _walked(self, asked: DemandRoom, lower: int, lacking: int) -> Found | None:
        """How many ranks are enough, or give the most, one by one; None: more than are walked."""
        found, ranks, places = asked.total, 0, asked.places
        if found >= lacking:
            return ranks, places
        places = dict(places)
        rows: dict[int, Row] = {}
        while self._first < len(self._gone) and self._gone[self._first]:
            self._first += 1
        for at in range(self._first, lower):
            if at == self._first + WALKED:
                return None
            if self._gone[at]:
                continue
            before = found
            needs = self._needs(int(self._jobs[at]))
            for host in self._hosts_of(at):
                row = rows.get(host)
                if row is None:
                    row = rows[host] = self._coming.row(host).copy()
                for resource, need in needs:
                    row[resource] += need
                holds = asked.holds(row)
                found += holds - places.get(host, 0)
                places[host] = holds
            if found > before:
                ranks = at + 1
                if found >= lacking:
                    break
        return ranks, places

    def _searched(self, demand: Ints, lower: int, lacking: int) -> Found:
        """The same by halves."""
        wanted = min(lacking, int(self._places(demand, lower).sum()))
        low, high = -1, lower
        while high - low > 1:
            middle = (low + high) // 2
            if int(self._places(demand, middle).sum()) >= wanted:
                high = middle
            else:
                low = middle
        return high, dict(enumerate(self._places(demand, high).tolist()))

    def _places(self, demand: Ints, victims: int) -> Ints:
        """How many such tasks each host has room for when the lowest ranks are gone."""
        victim, host, needed = self._on
        end = int(np.searchsorted(victim, victims))
        there = ~self._gone[victim[:end]]
        hosts, asked = host[:end][there], needed[:end][there]
        left = self._coming.array.copy()
        for resource in np.flatnonzero(demand):
            freed = np.bincount(hosts, asked[:, resource], minlength=len(left))
            left[:, resource] += freed.astype(np.int64)
        return room(left, demand)

    def _sitting(self, hosts: set[int], ranks: int) -> list[int]:
        """Those of the lowest ranks who are on one of these hosts."""
        if ranks - self._first <= WALKED:
            return [
                at
                for at in range(self._first, ranks)
                if not self._gone[at] and not hosts.isdisjoint(self._hosts_of(at))
            ]
        victim, host, _ = self._on
        here = np.isin(host, list(hosts)) & (victim < ranks) & ~self._gone[victim]
        return [int(at) for at in np.unique(victim[here])]

    @cached_property
    def _on(self) -> tuple[Ints, Ints, Ints]:
        """Of every task of a victim: which victim's it is, its host, what it needs."""
        snapshot, place = self._snapshot, np.full(len(self._snapshot.tasks), -1)
        place[self._jobs] = np.arange(len(self._jobs))
        victim = np.where(snapshot.task_state == RUNNING, place[snapshot.task_job], -1)
        tasks = np.argsort(victim, kind="stable")[int((victim < 0).sum()) :]
        return victim[tasks], snapshot.task_host[tasks], snapshot.demand[snapshot.task_job[tasks]]

    def _hosts_of(self, at: int) -> list[int]:
        """Where the tasks of a victim are."""
        found = self._hosts.get(at)
        if found is None:
            own = self._snapshot.tasks_of(int(self._jobs[at]))
            on = self._snapshot.task_state[own] == RUNNING
            found = self._hosts[at] = self._snapshot.task_host[own][on].tolist()
        return found

    def _needs(self, job: int) -> Needs:
        kind = int(self._snapshot.alike[job])  # jobs of a kind need the same
        found = self._kinds.get(kind)
        if found is None:
            demand = self._snapshot.demand[job].tolist()
            found = self._kinds[kind] = [(at, need) for at, need in enumerate(demand) if need]
        return found
