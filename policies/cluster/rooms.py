"""What hosts have room for while a decision is being made, kept up to date step by step.

A ruling may place or suspend thousands of jobs. What each of them changes is a few hosts, so room
is counted once for each demand that is asked for, and after that only where something changed.
"""

from collections.abc import Iterable

import numpy as np

from policies.cluster.scheduler import Ints

Row = list[int]  # amounts of one host
Needs = list[tuple[int, int]]  # what a task needs: (resource, amount), without those it does not


def room(free: Ints, demand: Ints) -> Ints:
    """How many tasks of this demand each host has room for."""
    needed = np.flatnonzero(demand)
    if len(needed) == 1:  # most traces ask for GPUs and nothing else
        found: Ints = free[:, needed[0]] // demand[needed[0]]
    else:
        found = (free[:, needed] // demand[needed]).min(axis=1)
    return found


class DemandRoom:
    """Hosts that have room for a task of one demand, and for how many."""

    def __init__(self, free: Ints, demand: Ints) -> None:
        places = room(free, demand)
        there = np.flatnonzero(places > 0)
        self.places = dict(zip(there.tolist(), places[there].tolist(), strict=True))
        self.total = sum(self.places.values())
        self.needs: Needs = [(at, need) for at, need in enumerate(demand.tolist()) if need]
        self.seen = 0  # of the changes since then

    def holds(self, row: Row) -> int:
        """How many a host with this much has room for."""
        return min([row[at] // need for at, need in self.needs])

    def refresh(self, host: int, row: Row) -> None:
        had, has = self.places.get(host, 0), self.holds(row)
        if has != had:
            self.total += has - had
            if has:
                self.places[host] = has
            else:
                del self.places[host]


class Rooms:
    """Hosts and what they have, which changes while a decision is being made."""

    def __init__(self, free: Ints) -> None:
        self._before = free
        self._rows: list[Row] = free.tolist()
        self._of: dict[bytes, DemandRoom] = {}
        self._changed: list[int] = []  # hosts, as it happened
        self._now = free  # as an array; behind by the changes since …
        self._now_seen = 0

    def of(self, demand: Ints) -> DemandRoom:
        """Up to date; hosts stand in the order of their numbers as long as room only shrinks."""
        key = demand.tobytes()
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = DemandRoom(self._before, demand)
        if found.seen < len(self._changed):
            for host in set(self._changed[found.seen :]):
                found.refresh(host, self._rows[host])
            found.seen = len(self._changed)
        return found

    def row(self, host: int) -> Row:
        """Not to be written to."""
        return self._rows[host]

    def take(self, hosts: Iterable[int], needs: Needs) -> None:
        """A task on each of these hosts."""
        for host in hosts:
            row = self._rows[host]
            for at, need in needs:
                row[at] -= need
            self._changed.append(host)

    def give(self, hosts: Iterable[int], needs: Needs) -> None:
        self.take(hosts, [(at, -need) for at, need in needs])

    def at_least_nothing(self, hosts: Iterable[int]) -> None:
        """Where more was taken than there is, nothing is left."""
        for host in hosts:
            self._rows[host] = [max(0, amount) for amount in self._rows[host]]
            self._changed.append(host)

    @property
    def array(self) -> Ints:
        """What each host (rows) has of each resource. It is changed by whoever asks next."""
        if self._now_seen < len(self._changed):
            if self._now is self._before:
                self._now = self._before.copy()
            hosts = list(set(self._changed[self._now_seen :]))
            self._now[hosts] = [self._rows[host] for host in hosts]
            self._now_seen = len(self._changed)
        return self._now


def first_fit(places: dict[int, int], count: int) -> list[int]:
    """The first hosts that have room, as many tasks on each as fit."""
    found: list[int] = []
    for host, fits in places.items():
        found += [host] * min(fits, count - len(found))
        if len(found) == count:
            break
    return found
