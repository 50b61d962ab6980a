"""Gandiva's affinity and migration, on pictures drawn by hand and on drawn ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.cluster import schedulers
from policies.cluster.filling import room
from policies.cluster.gandiva_moves import affinity, better_place, worth
from policies.cluster.scheduler import (
    LANDING,
    NEVER,
    RUNNING,
    WAITING,
    Event,
    Move,
    Ruling,
    Snapshot,
    Start,
)
from policies.cluster.sharing import placed
from policies.cluster.training_view import TrainingView

GPUS = 4
MS = 10**6


def seen(
    jobs: Sequence[Sequence[int] | int],
    hosts: int = 4,
    racks: Sequence[int] = (),
    iteration_ms: Sequence[int] = (),
    state: int = RUNNING,
) -> Snapshot:
    """Jobs by the hosts of their workers, a GPU each; a number: so many workers that wait."""
    count = np.array([job if isinstance(job, int) else len(job) for job in jobs], dtype=np.int64)
    waits = np.array([isinstance(job, int) for job in jobs])
    task_host = [host for job in jobs for host in ([-1] * job if isinstance(job, int) else job)]
    zeros = np.zeros(len(jobs), dtype=np.int64)
    demand = np.tile(np.array([1, 0, 0, 0, 0]), (len(jobs), 1))
    capacity = np.tile(np.array([GPUS, 1, 1, 1, 1]), (hosts, 1))
    free = capacity.copy()
    np.subtract.at(free[:, 0], [host for host in task_host if host >= 0], 1)
    assert (free >= 0).all()
    measured = np.array([ms * MS for ms in iteration_ms] or np.where(waits, 0, 1000 * MS))
    training = TrainingView(
        trains=np.ones(len(jobs), dtype=bool), iterations_done=zeros, iteration_ns=measured,
        checkpoint_byte=zeros, shift_ns=zeros, band=zeros, bands=("low",), steered=False,
        rack=np.array(racks or [0] * hosts),
    )  # fmt: skip
    task_job = np.repeat(np.arange(len(jobs)), count)
    return Snapshot(
        0, capacity=capacity, free=free, submitted_ns=zeros,
        deadline_ns=np.full(len(jobs), NEVER), demand=demand, gang=np.ones(len(jobs), dtype=bool),
        alike=np.arange(len(jobs)), tasks=count, waiting=np.where(waits, count, 0),
        running=np.where(waits, 0, count), suspended=zeros, attained_ns=zeros,
        first_task=np.cumsum([0, *count])[:-1], task_job=task_job,
        task_state=np.where(waits[task_job], WAITING, state),
        task_host=np.array(task_host, dtype=np.int64), training=training,
    )  # fmt: skip


def ruled(*told: tuple[Snapshot, Event], **options: Any) -> Ruling:
    """The last ruling, after all of these."""
    ruling = Ruling()
    for snapshot, event in told:
        gandiva = schedulers()["gandiva-lite"].told(options)
        ruling = gandiva.decided(snapshot, event, ruling.memory)
    return ruling


FINISHED, PROFILED = Event("finished"), Event("profiled", (0,))


# ---- affinity


def test_a_job_gets_the_host_of_its_like_that_it_fits_into() -> None:
    """h1 has a job of four, h2 one of two, h3 and h4 nobody."""
    crowd: list[list[int] | int] = [[0, 0, 0, 0], [1, 1], 2]
    assert ruled((seen(crowd), Event("arrived", (2,)))).actions == (Start(2, (1, 1)),)
    strangers: list[list[int] | int] = [[0, 0, 0], [1], 2]
    assert ruled((seen(strangers), Event("arrived", (2,)))).actions == (Start(2, (2, 2)),)


def test_a_job_that_fits_no_host_stays_in_a_rack() -> None:
    crowd: list[list[int] | int] = [[0, 0, 0], [1], [2, 2], [3, 3], 4]
    racks = (0, 1, 1, 0)
    order = affinity(seen(crowd, racks=racks))(4, np.array([1, 3, 2, 2]))
    assert order.tolist() == [1, 2, 3, 0]


# ---- migration


def test_a_job_on_two_hosts_moves_onto_one_that_has_room() -> None:
    spread = [[0, 1], [0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert ruled((seen(spread), FINISHED)).actions == (Move(0, (3, 3)),)
    assert ruled((seen(spread), FINISHED), migrate=False).actions == ()
    assert ruled((seen(spread, iteration_ms=[0] * 4), FINISHED)).actions == (), "not measured"
    assert ruled((seen(spread, state=LANDING), FINISHED)).actions == (), "somebody is on its way"
    whole = [[0, 0], [1], [2]]
    assert ruled((seen(whole), FINISHED)).actions == (), "it needs no network"


def test_nobody_moves_while_somebody_waits() -> None:
    spread: list[list[int] | int] = [[0, 1], [0, 0, 0], [1, 1, 1], [2, 2, 2, 2], [3, 3], 4]
    assert ruled((seen(spread), Event("arrived", (5,)))).actions == ()


def test_jobs_that_talk_over_the_same_hosts_are_separated() -> None:
    """Five workers fit no host: only where they meet nobody are they better off."""
    both = [[0, 0, 0, 1, 1], [0, 1], [4, 5]]
    [move] = ruled((seen(both, hosts=6), FINISHED)).actions
    assert move == Move(1, (4, 4)), "who fits a host gains the most, and takes the fullest"
    large = [[0, 0, 0, 1, 1], [0, 1, 1, 4, 4]]
    [move] = ruled((seen(large, hosts=5), FINISHED)).actions
    assert move == Move(0, (2, 2, 2, 2, 3))


def test_a_job_that_moved_for_nothing_stays() -> None:
    before, after = [[0, 1], [0, 0, 0]], [[2, 3], [0, 0, 0]]
    moved = (seen(before, iteration_ms=[1000, 1000]), FINISHED)
    for now_ms, goes_on in ((990, False), (800, True)):
        measured = seen(after, iteration_ms=[now_ms, 1000])
        assert bool(ruled(moved, (measured, PROFILED)).actions) == goes_on


@settings(deadline=None, max_examples=60)
@given(
    drawn=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=5),
    racks=st.lists(st.integers(0, 2), min_size=6, max_size=6),
)
def test_a_better_place_is_free_and_better(drawn: list[list[int]], racks: list[int]) -> None:
    held = np.bincount([host for job in drawn for host in job], minlength=6)
    assume((held <= GPUS).all())
    ranks = np.unique(racks, return_inverse=True)[1].tolist()
    snapshot = seen(drawn, hosts=6, racks=ranks)
    everywhere = placed(snapshot)
    for job, hosts in everywhere.items():
        found = better_place(snapshot, job, everywhere)
        places = room(snapshot.free, snapshot.demand[job])
        if found is None:
            fits = (places >= len(hosts)).any()
            assert len(set(hosts)) == 1 or not fits, "one host is better than any two"
        else:
            assert (np.bincount(found, minlength=6) <= places).all()
            assert len(found) == len(hosts)
            there, here = (worth(snapshot, job, where, everywhere) for where in (found, hosts))
            assert there < here
