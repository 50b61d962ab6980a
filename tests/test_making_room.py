"""Rulings that make room are fast and the same as by the plain rule: every rank tried in turn."""

import hashlib
import json
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.cluster import gandiva_lite, las, making_room, srtf
from policies.cluster.filling import HostOrder, by, entered, wanting
from policies.cluster.rooms import Rooms, room
from policies.cluster.scheduler import (
    RUNNING,
    SUSPENDING,
    Action,
    Floats,
    Ints,
    Snapshot,
    Suspend,
)
from testbed.cluster.master import Master, Prices
from tests.test_cluster_schedulers import CAPACITY, SECOND, clusters, run, told
from workloads.busy_job import BusyJob
from workloads.job_draws import philly

MODULES = {"srtf": srtf, "las": las, "gandiva-lite": gandiva_lite}


def plainly_ranked(
    snapshot: Snapshot,
    rank: Ints | Floats,
    spared: making_room.Flags | None = None,
    host_order: HostOrder | None = None,
) -> tuple[Action, ...]:
    """What `ranked` promises, with nothing kept from one step to the next."""
    assert host_order is None
    on = np.flatnonzero(snapshot.task_state == RUNNING)
    landed = np.bincount(snapshot.task_job[on], minlength=len(snapshot.tasks))
    may = (snapshot.running > 0) & (landed == snapshot.running)
    victims = by([rank], np.flatnonzero(may if spared is None else may & ~spared))[::-1].tolist()
    free, promised = snapshot.free.copy(), np.zeros_like(snapshot.free)
    leaving = np.flatnonzero(snapshot.task_state == SUSPENDING)
    np.add.at(promised, snapshot.task_host[leaving], snapshot.demand[snapshot.task_job[leaving]])
    actions: list[Action] = []
    closed = set()
    for job in by([rank], wanting(snapshot)).tolist():
        kind, demand, wanted = snapshot.alike[job], snapshot.demand[job], snapshot.wanting(job)
        if kind in closed:
            continue
        fits = np.repeat(np.arange(len(free)), room(free, demand))
        hosts = [] if snapshot.gang[job] and len(fits) < wanted else fits[:wanted].tolist()
        np.subtract.at(free, hosts, demand)
        actions += entered(snapshot, job, hosts)
        lacking = wanted - len(hosts)
        lower = [one for one in victims if rank[one] > rank[job]]
        left = free + promised
        total, enough, chosen = 0, 0, np.zeros(0, dtype=np.int64)
        for count in range(len(lower) + 1):
            if count:
                np.add.at(
                    left, hosts_of(snapshot, lower[count - 1]), snapshot.demand[lower[count - 1]]
                )
            fits = np.repeat(np.arange(len(free)), room(left, demand))
            if len(fits) > total:
                total, enough, chosen = len(fits), count, fits[:lacking]
            if total >= lacking:
                break
        if not lacking or not total or (snapshot.gang[job] and total < lacking):
            closed |= {kind} if lacking else set()
            continue
        for one in lower[:enough]:
            if set(chosen.tolist()) & set(hosts_of(snapshot, one)):
                actions.append(Suspend(one))
                victims.remove(one)
                np.add.at(promised, hosts_of(snapshot, one), snapshot.demand[one])
        np.subtract.at(free, chosen, demand)
        promised += np.minimum(free, 0)
        free = np.maximum(free, 0)
    return tuple(actions)


def hosts_of(snapshot: Snapshot, job: int) -> list[int]:
    own = snapshot.tasks_of(job)
    found: list[int] = snapshot.task_host[own][snapshot.task_state[own] == RUNNING].tolist()
    return found


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=clusters(), walked=st.integers(0, 3))
def test_room_is_made_as_the_plain_rule_says(
    name: str, drawn: tuple[list[BusyJob], int, Prices], walked: int
) -> None:
    scheduler = MODULES[name].SCHEDULER
    with patch.object(making_room, "WALKED", walked):  # few victims: so both ways are taken
        fast = run(*drawn[:2], scheduler, drawn[2])
    with patch.object(MODULES[name], "ranked", plainly_ranked):
        plain = run(*drawn[:2], scheduler, drawn[2])
    assert list(map(told, fast.stretches)) == list(map(told, plain.stretches))


def test_slices_of_a_minute_give_what_they_gave_before_they_were_fast() -> None:
    """A digest that the code before Rooms gave: 600 jobs after Philly on 24 hosts."""
    drawn = philly(600, np.random.default_rng(1), np.random.default_rng(2))
    asked = zip(*(column.tolist() for column in drawn), strict=True)
    jobs = [
        BusyJob(f"j{at}", at * 10 * SECOND, length_ns // 60, count, (1000, 0, 0, 0, 0))
        for at, (count, length_ns) in enumerate(asked)
    ]
    master = Master(jobs, 24, CAPACITY, gandiva_lite.SCHEDULER, Prices(SECOND // 10, SECOND))
    master.run(10**18)
    rows = [told(stretch) for stretch in master.stretches]
    assert len(rows) == 2064
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert digest.startswith("e76f7b5327dccd0d")


amounts = st.lists(st.integers(0, 9), min_size=3, max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    free=st.lists(amounts, min_size=1, max_size=5),
    demands=st.lists(amounts.filter(any), min_size=1, max_size=3),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=12),
)
def test_room_that_is_kept_is_room_that_is_counted(
    free: list[list[int]], demands: list[list[int]], steps: list[tuple[int, int, bool]]
) -> None:
    rooms, now = Rooms(np.array(free)), np.array(free)
    for host, which, gives in steps:
        host, demand = host % len(free), np.array(demands[which % len(demands)])
        if not gives and (now[host] < demand).any():
            continue
        needs = rooms.of(demand).needs
        (rooms.give if gives else rooms.take)([host], needs)
        now[host] += demand if gives else -demand
        for one in map(np.array, demands):
            places = room(now, one)
            found = rooms.of(one)
            assert found.places == {at: n for at, n in enumerate(places.tolist()) if n}
            assert found.total == places.sum()
        assert (rooms.array == now).all()
