"""Schedulers on drawn clusters: what holds whatever they decide, and what each promises."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics.errors import RunFailed
from policies.cluster import Scheduler, schedulers
from policies.cluster.scheduler import (
    Action,
    Event,
    Move,
    Prioritise,
    Reject,
    Resume,
    Ruling,
    Shift,
    Snapshot,
    Start,
    Suspend,
)
from testbed.cluster.ledger import TaskStretch
from testbed.cluster.master import Master
from testbed.cluster.prices import Prices
from workloads.busy_job import BusyJob, in_order

SECOND = 10**9
FOREVER = 10**18
CAPACITY = (4000, 8000, 16, 16, 16)
SCHEDULERS = [*schedulers().values(), schedulers()["fifo"].told({"blocking": False})]

demands = st.tuples(
    st.integers(0, 4).map(lambda gpus: gpus * 1000),
    st.integers(1, 8).map(lambda cpus: cpus * 1000),
    *[st.integers(0, 16)] * 3,
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[BusyJob], int, Prices]:
    """Jobs that fit some hosts, and what a suspension costs there."""
    hosts = draw(st.integers(1, 4))
    jobs = []
    for number in range(draw(st.integers(1, 10))):
        demand = draw(demands)
        gang = draw(st.booleans())
        one = BusyJob(f"job-{number}", 0, SECOND, 1, demand, gang)
        most = one.places(CAPACITY) * hosts if gang else 6
        submitted = draw(st.integers(0, 20)) * SECOND
        duration = draw(st.integers(1, 30)) * SECOND
        tasks = draw(st.integers(1, min(most, 6)))
        jobs.append(BusyJob(one.name, submitted, duration, tasks, demand, gang))
    prices = draw(st.sampled_from([Prices(), Prices(SECOND // 10, SECOND), Prices(SECOND, 0)]))
    return in_order(jobs), hosts, prices


def run(
    jobs: Sequence[BusyJob], hosts: int, scheduler: Scheduler, prices: Prices, until: int = FOREVER
) -> Master:
    quick = scheduler.told({**scheduler.chosen, **QUICK.get(scheduler.name, {})})
    master = Master(jobs, hosts, CAPACITY, quick, prices)
    master.run(until)
    return master


QUICK = {"las": {"threshold": 5 * SECOND, "queues": 3}, "gandiva-lite": {"slice": 4 * SECOND}}


def held(master: Master, hosts: int) -> list[tuple[int, int, np.ndarray]]:
    """What each host holds after each change: (time, host, amounts)."""
    changes = []
    for stretch in master.stretches:
        demand = np.array(master.ledger.jobs[stretch.job].demand)
        for host in stretch.hosts.tolist():
            changes += [(stretch.taken_ns, 1, host, demand), (stretch.free_ns, 0, host, -demand)]
    changes.sort(key=lambda change: change[:3])  # who leaves at a moment leaves first
    now = np.zeros((hosts, len(CAPACITY)), dtype=np.int64)
    found = []
    for time, _, host, demand in changes:
        now[host] += demand
        found.append((time, host, now[host].copy()))
    return found


def worked(master: Master, job: int) -> list[int]:
    """How long each task of a job worked in all."""
    first, count = int(master.ledger.first_task[job]), master.ledger.jobs[job].tasks
    total = [0] * count
    for stretch in master.stretches:
        for task in stretch.tasks.tolist() if stretch.job == job else ():
            total[task - first] += stretch.end_ns - stretch.start_ns
    return total


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda one: f"{one.name}-{len(one.chosen)}")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=clusters())
def test_hosts_hold_what_they_have_gangs_are_whole_and_jobs_run_their_time(
    scheduler: Scheduler, drawn: tuple[list[BusyJob], int, Prices]
) -> None:
    jobs, hosts, prices = drawn
    master = run(jobs, hosts, scheduler, prices)
    assert all((amounts <= CAPACITY).all() for _, _, amounts in held(master, hosts))
    assert (master.ledger.free == master.ledger.capacity).all()
    for number, job in enumerate(jobs):
        assert worked(master, number) == [job.duration_ns] * job.tasks
        own = [stretch for stretch in master.stretches if stretch.job == number]
        assert min(stretch.start_ns for stretch in own) >= job.submitted_ns
        if job.gang:
            assert {len(stretch.tasks) for stretch in own} == {job.tasks}


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda one: f"{one.name}-{len(one.chosen)}")
def test_the_same_jobs_are_run_the_same_way(scheduler: Scheduler) -> None:
    jobs = [
        BusyJob(
            f"j{n}", n * SECOND, (1 + n % 7) * SECOND, 1 + n % 2, (1000 + 1000 * (n % 4), *[1] * 4)
        )
        for n in range(40)
    ]
    one, other = (run(jobs, 2, scheduler, Prices(1000, 1000)) for _ in range(2))
    assert [told(stretch) for stretch in one.stretches] == [
        told(stretch) for stretch in other.stretches
    ]


def told(stretch: TaskStretch) -> tuple[object, ...]:
    return (
        stretch.job, stretch.tasks.tolist(), stretch.hosts.tolist(), stretch.taken_ns,
        stretch.start_ns, stretch.end_ns, stretch.free_ns, stretch.why,
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(drawn=clusters())
def test_a_queue_whose_head_blocks_starts_jobs_as_they_came(
    drawn: tuple[list[BusyJob], int, Prices],
) -> None:
    jobs, hosts, prices = drawn
    master = run(jobs, hosts, schedulers()["fifo"], prices)
    starts = [(stretch.start_ns, stretch.job) for stretch in master.stretches]
    assert [job for _, job in sorted(starts)] == sorted(job for _, job in starts)


def test_a_small_job_passes_a_blocked_head_only_if_it_may() -> None:
    jobs = [
        BusyJob("most", 0, 10 * SECOND, 3, (1000, *[0] * 4)),
        BusyJob("all", SECOND, 10 * SECOND, 4, (1000, *[0] * 4)),
        BusyJob("one", 2 * SECOND, SECOND, 1, (1000, *[0] * 4)),
    ]
    for blocking, start in ((True, 20 * SECOND), (False, 2 * SECOND)):
        fifo = schedulers()["fifo"].told({"blocking": blocking})
        [stretch] = [one for one in run(jobs, 1, fifo, Prices()).stretches if one.job == 2]
        assert stretch.start_ns == start


def test_cosine_and_first_fit_choose_different_hosts() -> None:
    """h1 is half full of memory, so a task that needs memory points to h2."""
    jobs = [
        BusyJob("memory", 0, 10 * SECOND, 1, (0, 1000, 8, 0, 0)),
        BusyJob("more", SECOND, SECOND, 1, (0, 1000, 8, 0, 0)),
    ]
    for node, host in (("first-fit", 0), ("cosine", 1)):
        tetris = schedulers()["tetris"].told({"node": node})
        [stretch] = [one for one in run(jobs, 2, tetris, Prices()).stretches if one.job == 1]
        assert stretch.hosts.tolist() == [host]


def test_the_2014_tetris_prefers_the_task_that_fills_and_the_job_with_little_left() -> None:
    first = BusyJob("first", 0, SECOND, 4, (1000, *[0] * 4))
    thin = BusyJob("thin", 1, 100 * SECOND, 1, (2000, *[0] * 4))
    fat = BusyJob("fat", 2, 100 * SECOND, 1, (4000, *[0] * 4))
    short = BusyJob("short", 3, SECOND, 1, (3000, *[0] * 4))
    alike = {"fairness": 0}
    packing = schedulers()["tetris-2014"].told({"remaining": 0, **alike})
    both = schedulers()["tetris-2014"].told({"remaining": 1, **alike})
    assert second_job([first, thin, fat, short], packing) == "fat"
    assert second_job([first, thin, fat, short], both) == "short"


def second_job(jobs: Sequence[BusyJob], scheduler: Scheduler) -> str:
    master = run(jobs, 1, scheduler, Prices())
    later = sorted((s.start_ns, s.job) for s in master.stretches if s.job)
    return jobs[later[0][1]].name


def test_srtf_suspends_the_long_job_and_resumes_it_for_a_price() -> None:
    jobs = [
        BusyJob("long", 0, 100 * SECOND, 4, (1000, *[0] * 4)),
        BusyJob("short", 10 * SECOND, 5 * SECOND, 4, (1000, *[0] * 4)),
    ]
    master = run(jobs, 1, schedulers()["srtf"], Prices(SECOND, 2 * SECOND))
    times = [(s.job, *(t // SECOND for t in (s.taken_ns, s.start_ns, s.end_ns, s.free_ns)))
             for s in master.stretches]  # fmt: skip
    assert times == [(0, 0, 0, 10, 11), (1, 11, 11, 16, 16), (0, 16, 18, 108, 108)]


def test_las_lets_a_newcomer_in_when_a_job_has_had_its_service() -> None:
    """At 20 s the newcomer is in the second queue too, where whoever runs goes on."""
    jobs = [BusyJob(name, at * SECOND, 100 * SECOND, 4, (1000, *[0] * 4)) for name, at in
            (("old", 0), ("new", 1))]  # fmt: skip
    las = schedulers()["las"].told({"threshold": 40 * SECOND, "queues": 2})
    master = Master(jobs, 1, CAPACITY, las)
    master.run(FOREVER)
    assert [(s.job, s.start_ns // SECOND, s.end_ns // SECOND) for s in master.stretches[:3]] == [
        (0, 0, 10), (1, 10, 110), (0, 110, 200)
    ]  # fmt: skip


def test_slices_go_round() -> None:
    jobs = [BusyJob(name, 0, 100 * SECOND, 4, (1000, *[0] * 4)) for name in ("a", "b", "c")]
    gandiva = schedulers()["gandiva-lite"].told({"slice": 10 * SECOND})
    master = Master(jobs, 1, CAPACITY, gandiva)
    master.run(FOREVER)
    assert [s.job for s in master.stretches[:7]] == [0, 1, 2, 0, 1, 2, 0]
    assert {s.end_ns - s.start_ns for s in master.stretches[:6]} == {10 * SECOND}


def test_durations_are_hidden_from_those_who_do_not_ask() -> None:
    seen = []

    def look(snapshot: Snapshot, event: Event, memory: object) -> Ruling:
        seen.append((snapshot.remaining_ns, len(snapshot.tasks), snapshot.free.flags.writeable))
        return Ruling()

    jobs = [BusyJob("a", 0, SECOND, 1, (1000, *[0] * 4)), BusyJob("b", 5, 7, 1, (1000, *[0] * 4))]
    Master(jobs, 1, CAPACITY, Scheduler("own", "Own", "", look)).run(FOREVER)
    assert seen == [(None, 1, False), (None, 2, False)]  # nor does it know who will come
    knows = Scheduler("own", "Own", "", look, needs_durations=True)
    Master(jobs, 1, CAPACITY, knows).run(FOREVER)
    assert seen[2][0].tolist() == [SECOND]


def test_a_job_can_be_moved_and_rejected() -> None:
    def decide(snapshot: Snapshot, event: Event, memory: object) -> Ruling:
        if event.what == "arrived":
            return Ruling(
                (Start(0, (0, 0)),) if event.jobs == (0,) else (Reject(1),), None, 3 * SECOND
            )
        return Ruling((Move(0, (1, 1)),) if event.what == "looked" else ())

    jobs = [BusyJob("a", 0, 10 * SECOND, 2, (1000, *[0] * 4)),
            BusyJob("b", SECOND, SECOND, 1, (1000, *[0] * 4))]  # fmt: skip
    master = Master(jobs, 2, CAPACITY, Scheduler("own", "Own", "", decide), Prices(SECOND, SECOND))
    master.run(FOREVER)
    assert master.rejected == {1}
    assert [(s.hosts.tolist(), s.start_ns // SECOND, s.end_ns // SECOND, s.free_ns // SECOND, s.why)
            for s in master.stretches] == [
        ([0, 0], 0, 3, 4, "moved"), ([1, 1], 5, 12, 12, "finished"),
    ]  # fmt: skip
    assert (master.ledger.free == master.ledger.capacity).all()


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (Start(0, (0,)), "starts 1 of the 2 tasks of gang, which run together"),
        (Start(0, (0, 5)), "on a host that is not there"),
        (Start(0, (0, 0, 0)), "starts 3 tasks of gang, which has 2 to start"),
        (Start(1, (0,)), "starts fat on h1, which would take 9 gpu of 4 gpu that is free"),
        (Start(7, (0,)), "decides on job 7, which is not there"),
        (Resume(0, (0, 0)), "resumes 2 tasks of gang, which has 0 to resume"),
        (Suspend(0), "suspends gang, which does not run"),
        (Move(0, (0, 0)), "moves gang to 2 places; it has 0 tasks"),
        (Shift(0, 5), "shifts gang, a busy job, which has no iterations"),
        (Prioritise(0, "low"), "prioritises gang, a busy job, which sends nothing"),
    ],
)
def test_an_illegal_decision_ends_the_run_with_the_schedulers_name(
    action: Action, says: str
) -> None:
    jobs = [BusyJob("gang", 0, SECOND, 2, (1000, *[0] * 4)),
            BusyJob("fat", 0, SECOND, 1, (9000, *[0] * 4))]  # fmt: skip

    def decide(snapshot: Snapshot, event: Event, memory: object) -> Ruling:
        return Ruling((action,) if event.jobs == (1,) else ())

    master = Master(jobs, 2, CAPACITY, Scheduler("mine", "Mine", "", decide))
    with pytest.raises(RunFailed) as caught:
        master.run(FOREVER)
    assert says in str(caught.value)
    assert str(caught.value).startswith("the placement mine ")
    assert caught.value.exit_code == 4


def test_a_look_back_is_illegal() -> None:
    own = Scheduler("mine", "Mine", "", lambda *_: Ruling(look_ns=0))
    with pytest.raises(RunFailed, match="mine wants to look at 0 s, which is not later"):
        Master([BusyJob("a", 0, 1, 1, CAPACITY)], 1, CAPACITY, own).run(FOREVER)


def test_what_runs_when_the_run_ends_is_stopped_there() -> None:
    jobs = [BusyJob("endless", 0, None, 1, (1000, *[0] * 4)),
            BusyJob("late", 20 * SECOND, SECOND, 1, (1000, *[0] * 4))]  # fmt: skip
    master = Master(jobs, 1, CAPACITY, schedulers()["fifo"])
    master.run(10 * SECOND)
    [stretch] = master.stretches
    assert (stretch.end_ns, stretch.free_ns, stretch.why) == (10 * SECOND, 10 * SECOND, "stopped")
