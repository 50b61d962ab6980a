"""Where Gandiva would rather have a job: affinity when it is placed, migration when room has come.

What a place is worth is seen from outside, as Gandiva does: how many racks and hosts a job is on,
and how many other jobs talk over the network of the same hosts. A job on one host needs no
network and is where it should be.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from policies.cluster.filling import HostOrder
from policies.cluster.rooms import room
from policies.cluster.scheduler import RUNNING, Ints, Move, Snapshot
from policies.cluster.sharing import placed

Hosts = tuple[int, ...]
Worth = tuple[int, int, int]  # racks, hosts, other jobs that send there: less is better


def affinity(snapshot: Snapshot) -> HostOrder:
    """Hosts in the order in which a job should get them.

    One that holds the whole job, if there is one, with the least room that is left; else those with
    the most room, rack by rack. Among these, hosts of jobs of the same size first, then empty ones.
    """
    assert snapshot.training is not None
    rack = snapshot.training.rack
    on = np.flatnonzero(snapshot.task_state == RUNNING)
    sizes: dict[int, set[int]] = {}
    for host, job in zip(snapshot.task_host[on], snapshot.task_job[on], strict=True):
        sizes.setdefault(int(host), set()).add(int(snapshot.tasks[job]))

    def order(job: int, places: Ints) -> Ints:
        size, wanted = int(snapshot.tasks[job]), snapshot.wanting(job)
        strange = np.array(
            [1 if host not in sizes else 0 if sizes[host] == {size} else 2
             for host in range(len(places))]
        )  # fmt: skip
        numbers = np.arange(len(places))
        if (places >= wanted).any():
            short = places < wanted
            found: Ints = np.lexsort([numbers, places, strange, short])
        else:
            in_rack = np.bincount(rack, places)[rack]
            found = np.lexsort([numbers, strange, -places, rack, -in_rack])
        return found

    return order


def worth(snapshot: Snapshot, job: int, hosts: Hosts, all_hosts: Mapping[int, Hosts]) -> Worth:
    assert snapshot.training is not None
    different = set(hosts)
    racks = len({int(snapshot.training.rack[host]) for host in different})
    if len(different) == 1:
        return 1, 1, 0
    others = sum(
        len(set(where)) > 1 and not different.isdisjoint(where)
        for other, where in all_hosts.items()
        if other != job
    )
    return racks, len(different), others


def better_place(snapshot: Snapshot, job: int, all_hosts: Mapping[int, Hosts]) -> Hosts | None:
    """Free room where the job would be worth more than where it is, and the best of it."""
    count = int(snapshot.tasks[job])
    there = worth(snapshot, job, all_hosts[job], all_hosts)
    found = [
        (worth(snapshot, job, hosts, all_hosts), hosts)
        for hosts in _candidates(snapshot, job, count, all_hosts)
    ]
    best = min(found, default=(there, ()))
    return best[1] if best[0] < there else None


def _candidates(
    snapshot: Snapshot, job: int, count: int, all_hosts: Mapping[int, Hosts]
) -> Iterator[Hosts]:
    """One host; one rack; anywhere; the last two also on hosts where nobody else sends."""
    assert snapshot.training is not None
    rack = snapshot.training.rack
    places = room(snapshot.free, snapshot.demand[job])
    whole = np.flatnonzero(places >= count)
    if len(whole):
        yield (int(whole[np.argmin(places[whole])]),) * count
        return
    sending = {host for other, hosts in all_hosts.items() if other != job for host in hosts
               if len(set(hosts)) > 1}  # fmt: skip
    quiet = np.array([host not in sending for host in range(len(places))])
    for may in (quiet, np.ones(len(places), dtype=bool)):
        for inside in [*(rack == one for one in np.unique(rack)), np.ones(len(places), dtype=bool)]:
            own = np.where(may & inside, places, 0)
            if own.sum() >= count:
                order = np.argsort(-own, kind="stable")
                yield tuple(np.repeat(order, own[order])[:count].tolist())


def migration(snapshot: Snapshot, settled: frozenset[int]) -> Move | None:
    """The job that gains the most from moving, if nobody is on its way; `settled` ones stay."""
    assert snapshot.training is not None
    if (snapshot.task_state[snapshot.running[snapshot.task_job] > 0] != RUNNING).any():
        return None
    all_hosts = placed(snapshot)
    found = []
    for job in sorted(all_hosts.keys() - settled):
        if snapshot.training.iteration_ns[job]:  # what it gains is measured against that
            hosts = better_place(snapshot, job, all_hosts)
            if hosts is not None:
                found.append((worth(snapshot, job, hosts, all_hosts), job, hosts))
    return Move(*min(found)[1:]) if found else None
