"""Three separate choices: which job is next, which host a task gets, and whether the head blocks.

`filled` walks through jobs in an order and places what fits; `HOST_CHOICES` are the ways to choose
a host.
"""

from collections.abc import Callable, Sequence

import numpy as np

from basics.options import Choice, flag
from policies.cluster import rooms
from policies.cluster.rooms import Rooms, room
from policies.cluster.scheduler import Action, Floats, Ints, Resume, Snapshot, Start

HostChoice = Callable[[Ints, Ints, Ints, Ints, int], Ints]
# (free, capacity, how many such tasks each host has room for, demand, how many) -> hosts
HostOrder = Callable[[int, Ints], Ints]  # (job, how many of its tasks fit on each host) -> hosts


def first_fit(free: Ints, capacity: Ints, places: Ints, demand: Ints, count: int) -> Ints:
    """The first hosts that have room, as many tasks on each as fit."""
    there = np.flatnonzero(places)
    return np.repeat(there, places[there])[:count]


def one_by_one(score: Callable[[Ints, Ints, Ints], Floats]) -> HostChoice:
    """Each task gets the host with the highest score of (free, capacity, demand) at its turn."""

    def choose(free: Ints, capacity: Ints, places: Ints, demand: Ints, count: int) -> Ints:
        left, places = free.copy(), places.copy()
        scores = np.where(places > 0, score(left, capacity, demand), -np.inf)
        chosen = np.empty(count, dtype=np.int64)
        for task in range(count):
            host = int(scores.argmax())
            chosen[task] = host
            left[host] -= demand
            places[host] -= 1
            one = slice(host, host + 1)
            scores[host] = score(left[one], capacity[one], demand)[0] if places[host] else -np.inf
        return chosen

    return choose


def cosine(free: Ints, capacity: Ints, demand: Ints) -> Floats:
    """Of the angle between what is free and what is asked, each as a share of the host's."""
    whole = np.maximum(capacity, 1)
    shares, asked = free / whole, demand / whole
    lengths = np.sqrt((shares * shares).sum(axis=1) * (asked * asked).sum(axis=1))
    along: Floats = (shares * asked).sum(axis=1) / np.maximum(lengths, 1e-300)
    return along.round(12)  # equal angles are equal, whatever the last bit says


def dot_product(free: Ints, capacity: Ints, demand: Ints) -> Floats:
    """Of what is free and what is asked, each as a share of the host's."""
    whole = np.maximum(capacity, 1)
    found: Floats = ((free / whole) * (demand / whole)).sum(axis=1)
    return found.round(12)


HOST_CHOICES: dict[str, HostChoice] = {
    "first-fit": first_fit,
    "cosine": one_by_one(cosine),
    "dot-product": one_by_one(dot_product),
}


def blocking(*, default: bool) -> Choice:
    return flag("whether a job that does not fit holds up those behind it", default=default)


def node(default: str) -> Choice:
    return Choice("which host a task gets", tuple(HOST_CHOICES), default)


class Places:
    """What is free, while a decision is being made; remembers which asks were refused.

    Room only shrinks meanwhile, so what did not fit once does not fit later, nor does more of it.
    """

    def __init__(
        self, snapshot: Snapshot, node: str = "first-fit", order: HostOrder | None = None
    ) -> None:
        """`order`: in which hosts are asked, if it is not that of their numbers; for first fit."""
        self.snapshot = snapshot
        self.rooms = Rooms(snapshot.free)
        self._order = order
        self._choose = HOST_CHOICES[node]
        self._least_refused: dict[bytes, int] = {}

    def take(self, job: int) -> list[int]:
        """Hosts for what the job wants, as far as there is room; for a gang all or none."""
        snapshot = self.snapshot
        if self.refuses(job):
            return []
        demand, wanted = snapshot.demand[job], snapshot.wanting(job)
        found = self.rooms.of(demand)
        total = found.total
        if total < wanted:
            self._least_refused[demand.tobytes()] = total + 1
            if total == 0 or snapshot.gang[job]:
                return []
        count = min(wanted, total)
        hosts = self._chosen(job, demand, found.places, count)
        self.rooms.take(hosts, found.needs)
        if count < wanted:
            self._least_refused[demand.tobytes()] = 1
        return hosts

    def _chosen(self, job: int, demand: Ints, places: dict[int, int], count: int) -> list[int]:
        if self._order is None and self._choose is first_fit:
            return rooms.first_fit(places, count)
        free, capacity = self.rooms.array, self.snapshot.capacity
        fit = room(free, demand)
        if self._order is None:
            return [int(host) for host in self._choose(free, capacity, fit, demand, count)]
        asked = self._order(job, fit)
        fitting = first_fit(free, capacity, fit[asked], demand, count)
        return [int(host) for host in asked[fitting]]

    def refuses(self, job: int) -> bool:
        """Whether it is known that nothing of the job can be placed any more."""
        least = self._least_refused.get(self.snapshot.demand[job].tobytes())
        if least is None:
            return False
        return (self.snapshot.wanting(job) if self.snapshot.gang[job] else 1) >= least


def entered(snapshot: Snapshot, job: int, hosts: list[int]) -> list[Action]:
    """Suspended tasks go on first, then those that never ran begin."""
    again = int(snapshot.suspended[job])
    found: list[Action] = []
    if hosts and again:
        found.append(Resume(job, tuple(hosts[:again])))
    if len(hosts) > again:
        found.append(Start(job, tuple(hosts[again:])))
    return found


def filled(
    snapshot: Snapshot, order: Ints, *, node: str = "first-fit", blocking: bool = False
) -> tuple[Action, ...]:
    """Place jobs in this order, as far as there is room."""
    places = Places(snapshot, node)
    actions: list[Action] = []
    kinds = snapshot.alike[order].tolist()
    one_of = dict(zip(kinds, order.tolist(), strict=True))  # a job of each kind that may still fit
    for job, kind in zip(order.tolist(), kinds, strict=True):
        if kind not in one_of:
            continue
        hosts = places.take(job)
        actions += entered(snapshot, job, hosts)
        if len(hosts) < snapshot.wanting(job):
            one_of = {kind: one for kind, one in one_of.items() if not places.refuses(one)}
            if blocking or not one_of:
                break
    return tuple(actions)


def wanting(snapshot: Snapshot) -> Ints:
    """Jobs that have tasks to place, in the order in which they came."""
    return np.flatnonzero((snapshot.waiting > 0) | (snapshot.suspended > 0))


def by(keys: Sequence[Ints | Floats], jobs: Ints) -> Ints:
    """Jobs by the first key, then by the next; the first come first among equals."""
    order: Ints = np.lexsort([jobs, *(key[jobs] for key in reversed(keys))])
    return jobs[order]
