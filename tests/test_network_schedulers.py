"""Schedulers that know the network: CASSINI's circles, Crux's order, on pictures drawn by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.cluster import cassini, crux, schedulers
from policies.cluster.circles import Circle, common, middle, score, turned
from policies.cluster.scheduler import NEVER, RUNNING, Event, Prioritise, Ruling, Shift, Snapshot
from policies.cluster.sharing import by_jobs, groups
from policies.cluster.training_view import Traffic, TrainingView
from testbed.engine import Run
from testbed.fluid import engine
from testbed.run_folder import RunFolder
from testbed.spec import sweep_file
from tests.conftest import REPOSITORY, giveway

SECOND = 10**9
BPS = 8_000_000  # a megabyte a second: megabytes are seconds


@dataclass(frozen=True)
class Job:
    """What it computes, and the megabytes that an iteration puts on each link."""

    compute_s: float
    links: Mapping[str, float]
    band: str = "low"


def seen(jobs: Sequence[Job], time_s: float = 0, done: Sequence[int] = (), **view: Any) -> Snapshot:
    """All run, each with one worker on a host of its own."""
    count = len(jobs)
    zeros, ones = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    numbers = np.arange(count)
    bands = ("high", "middle", "low")
    compute = np.array([int(job.compute_s * SECOND) for job in jobs], dtype=np.int64)
    names = {link for job in jobs for link in job.links}
    traffic = Traffic(
        compute, zeros, zeros,
        lambda job, hosts: {link: int(mb * 10**6) for link, mb in jobs[job].links.items()},
        dict.fromkeys(names, BPS),
    )  # fmt: skip
    alone = compute + np.array([int(SECOND * max(job.links.values())) for job in jobs])
    training = TrainingView(
        trains=ones.astype(bool), iterations_done=np.array(done or zeros), iteration_ns=alone,
        checkpoint_byte=zeros, shift_ns=zeros, bands=bands, steered=False, rack=zeros,
        band=np.array([bands.index(job.band) for job in jobs]), traffic=traffic,
    )  # fmt: skip
    return Snapshot(
        int(time_s * SECOND), capacity=np.full((count, 5), 1000), free=np.zeros((count, 5), int),
        submitted_ns=zeros, deadline_ns=np.full(count, NEVER), demand=np.full((count, 5), 1000),
        gang=ones.astype(bool), alike=zeros, tasks=ones, waiting=zeros, running=ones,
        suspended=zeros, attained_ns=zeros, first_task=numbers,
        task_state=np.full(count, RUNNING), task_job=numbers, task_host=numbers,
        training=replace(training, **view),
    )  # fmt: skip


def crux_bands(*jobs: Job, **view: Any) -> dict[int, str]:
    ruling = schedulers()["crux"].decided(seen(jobs, **view), Event("looked"), None)
    changed = {one.job: one.band for one in ruling.actions if isinstance(one, Prioritise)}
    return {job: changed.get(job, one.band) for job, one in enumerate(jobs)}


# ---- Crux


def test_cruxs_first_example_puts_the_short_job_first() -> None:
    """Both compute as long as they send, so the shorter iteration decides."""
    assert crux_bands(Job(2, {"l": 2}), Job(1, {"l": 1})) == {0: "middle", 1: "high"}


def test_more_compute_per_communication_goes_first_and_bands_are_shared_evenly() -> None:
    jobs = [Job(compute, {"l": 1}) for compute in (1, 5, 3, 4, 2, 6)]
    bands = ("high", "middle", "low")
    by_compute = {6: 0, 5: 0, 4: 1, 3: 1, 2: 2, 1: 2}
    assert crux_bands(*jobs) == {
        at: bands[by_compute[int(job.compute_s)]] for at, job in enumerate(jobs)
    }


def test_jobs_that_share_no_link_are_ordered_apart() -> None:
    jobs = [Job(1, {"a": 1}), Job(9, {"b": 1}), Job(2, {"a": 1, "c": 1}), Job(1, {"c": 1})]
    assert crux_bands(*jobs) == {0: "middle", 1: "high", 2: "high", 3: "low"}


def test_bands_are_left_alone_where_the_link_policy_steers_and_where_they_are_right() -> None:
    crowd = [Job(2, {"l": 2}, "middle"), Job(1, {"l": 1}, "high")]
    ruling = schedulers()["crux"].decided(seen(crowd), Event("looked"), None)
    assert ruling.actions == ()
    assert crux_bands(Job(2, {"l": 2}), Job(1, {"l": 1}), steered=True) == {0: "low", 1: "low"}
    spare = schedulers()["crux"].told({"spare": 1})
    ruling = spare.decided(seen(crowd), Event("looked"), None)
    assert ruling.actions == (Prioritise(1, "middle"), Prioritise(0, "low"))


some_jobs = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 50)).map(
        lambda drawn: Job(drawn[0] / 10, {"l": drawn[1] / 10})
    ),
    min_size=2,
    max_size=6,
)


@settings(deadline=None)
@given(jobs=some_jobs, compute=st.sampled_from([0.5, 2, 8]), sends=st.sampled_from([0.5, 4]))
def test_cruxs_order_is_that_of_ratios_whatever_the_machines_speed(
    jobs: list[Job], compute: float, sends: float
) -> None:
    """Faster GPUs or links for everybody change nothing, but among equals, where length decides."""
    ratios = [round(job.compute_s / job.links["l"], 6) for job in jobs]
    scaled = [Job(job.compute_s * compute, {"l": job.links["l"] * sends}) for job in jobs]
    for crowd in (jobs, scaled):
        view = seen(crowd).training
        assert view is not None
        assert view.traffic is not None
        sent = {at: view.traffic.loads(at, ()) for at in range(len(crowd))}
        order = crux.ordered(range(len(crowd)), dict.fromkeys(sent, 1), sent, view.traffic)
        found = [ratios[job] for job in order]
        slack = 0.011 * max(ratios)
        assert all(b <= a + slack for a, b in pairwise(found))


# ---- CASSINI's circles

small_circles = st.lists(
    st.builds(
        lambda period, sends, rate: Circle(period, min(sends, period), float(rate)),
        st.sampled_from([3, 4, 6]),
        st.integers(1, 4),
        st.integers(1, 3),
    ),
    min_size=2,
    max_size=4,
)


def scored(circles: Sequence[Circle], turns: Sequence[int], capacity: float) -> float:
    """1 - sum(max(0, demand - capacity)) / (angles x capacity), slot by slot."""
    slots = int(np.lcm.reduce([one.period for one in circles]))
    beyond = 0.0
    for slot in range(slots):
        asked = sum(
            one.rate_bps for one, turn in zip(circles, turns, strict=True)
            if (slot - turn) % one.period >= one.period - one.sends
        )  # fmt: skip
        beyond += max(0.0, asked - capacity)
    return 1 - beyond / (slots * capacity)


@settings(deadline=None, max_examples=60)
@given(circles=small_circles, capacity=st.integers(1, 4))
def test_no_turn_is_better_than_the_one_that_is_found(circles: list[Circle], capacity: int) -> None:
    best, turns = turned(circles, capacity)
    assert turns[0] == 0
    assert best == pytest.approx(scored(circles, turns, capacity))
    every = product([0], *(range(one.period) for one in circles[1:]))
    assert best == pytest.approx(max(scored(circles, one, capacity) for one in every))


@settings(deadline=None, max_examples=20)
@given(
    sends=st.lists(st.integers(1, 30), min_size=4, max_size=5),
    rates=st.lists(st.integers(1, 3), min_size=5, max_size=5),
)
def test_many_jobs_are_turned_one_by_one_and_never_for_the_worse(
    sends: list[int], rates: list[int]
) -> None:
    circles = [Circle(72, one, float(rate)) for one, rate in zip(sends, rates, strict=False)]
    best, turns = turned(circles, 3.0)
    assert best == pytest.approx(scored(circles, turns, 3.0))
    assert best >= scored(circles, [0] * len(circles), 3.0) - 1e-9


def test_a_pair_takes_turns_and_stays_as_far_apart_as_it_can() -> None:
    pair = [Circle(10, 4, 1.0)] * 2
    assert score(2 * pair[0].demand(10, 0), 1.0) == pytest.approx(0.6)
    assert turned(pair, 1.0) == (1.0, (0, 5))
    assert common([Circle(71, 1, 1.0), Circle(72, 1, 1.0)]) is None, "they hardly ever meet again"
    assert middle(np.array([1.0, 0, 0, 1, 1])) == 4, "a row goes on from the last to the first"


# ---- CASSINI's shifts


def arranged(*snapshots: tuple[Snapshot, Event]) -> Ruling:
    """The last ruling, after all of these."""
    ruling = Ruling()
    for snapshot, event in snapshots:
        ruling = schedulers()["cassini"].decided(snapshot, event, ruling.memory)
    return ruling


PAIR = [Job(0.6, {"l": 0.4}), Job(0.6, {"l": 0.4})]
LOOKED = Event("looked")


def test_jobs_in_step_are_shifted_by_half_an_iteration_once_both_were_seen() -> None:
    first = arranged((seen(PAIR, 3, [3, 3]), LOOKED))
    assert first.actions == ()
    assert first.look_ns == 3 * SECOND + SECOND // 72, "it watches"
    later = [(seen(PAIR, 3, [3, 3]), LOOKED), (seen(PAIR, 4, [4, 4]), LOOKED)]
    [shift] = arranged(*later).actions
    assert isinstance(shift, Shift)
    assert shift.job == 1
    assert shift.by_ns == pytest.approx(SECOND // 2, abs=SECOND // 72)
    after = arranged(*later, (seen(PAIR, 5, [5, 5]), LOOKED))
    assert after.actions == (), "once"
    assert after.look_ns == 65 * SECOND


def test_where_a_job_is_counts() -> None:
    """The second ended 0.2 s before the first, so it takes 0.7 s to be half an iteration later."""
    told = [
        (seen(PAIR, 3, [3, 3]), LOOKED),
        (seen(PAIR, 3.8, [3, 4]), LOOKED),
        (seen(PAIR, 4, [4, 4]), LOOKED),
    ]
    [shift] = arranged(*told).actions
    assert isinstance(shift, Shift)
    assert shift.job == 1
    assert shift.by_ns == pytest.approx(0.7 * SECOND, abs=SECOND // 50)


def test_drift_is_noticed_and_answered() -> None:
    told = [(seen(PAIR, 3, [3, 3]), LOOKED), (seen(PAIR, 4, [4, 4]), LOOKED)]
    slow = np.array([1400, 1000]) * 10**6
    again = arranged(*told, (seen(PAIR, 64, [9, 9], iteration_ns=slow), LOOKED))
    assert again.look_ns == 64 * SECOND + SECOND // 72
    not_measured = arranged((seen(PAIR, 3, [3, 3], iteration_ns=np.array([0, SECOND])), LOOKED))
    assert (not_measured.actions, not_measured.look_ns) == ((), None)


@settings(deadline=None, max_examples=40)
@given(
    parents=st.lists(st.integers(0, 10), min_size=1, max_size=5),
    shares=st.lists(st.integers(1, 5), min_size=6, max_size=6),
)
def test_shifts_are_right_on_every_link_of_a_tree(parents: list[int], shares: list[int]) -> None:
    """Each job shares one link with one before it: then no link has to give in."""
    links: list[dict[str, float]] = [{} for _ in range(len(parents) + 1)]
    for number, parent in enumerate(parents):
        for job in (number + 1, parent % (number + 1)):
            links[job][f"l{number}"] = shares[job] / 10
    jobs = [Job(1 - shares[at] / 10, of) for at, of in enumerate(links)]
    view = seen(jobs).training
    assert view is not None
    assert view.traffic is not None
    of = {at: view.traffic.loads(at, ()) for at in range(len(jobs))}
    alone = cassini.periods(of, view.traffic)
    wanted = cassini.link_turns(of, view.traffic)
    begins = cassini.consistent(wanted, alone)
    for one in wanted:
        a, b = one.jobs
        asked = (one.by_ns[1] - one.by_ns[0]) % SECOND
        assert (begins[b] - begins[a] - asked) % SECOND in (0, pytest.approx(SECOND))


def test_a_set_that_closes_a_loop_has_no_say() -> None:
    turns = [cassini.Turns((0, 1), (0, 5), 0.5, 1), cassini.Turns((1, 2), (0, 5), 0.6, 1),
             cassini.Turns((0, 2), (0, 7), 0.7, 1)]  # fmt: skip
    assert cassini.consistent(turns, dict.fromkeys(range(3), 20)) == {0: 0, 1: 5, 2: 10}


def test_links_are_told_apart_by_who_shares_them() -> None:
    of = {0: {"a": 1, "b": 1}, 1: {"a": 1, "b": 2, "c": 0}, 2: {"c": 1}}
    assert by_jobs(of) == {(0, 1): ["a", "b"]}
    assert groups(of, by_jobs(of)) == [[0, 1], [2]]


# ---- in the simulation


def iterations(name: str, label: str, folder: Path, *settings: str) -> pd.DataFrame:
    """Of a file that ships, under one of its placements: the first worker's, with their length."""
    experiment = sweep_file.load(REPOSITORY / "experiments" / name, list(settings)).first
    [arm] = [arm for arm in experiment.arms if arm.label == label]
    setting = engine.settle(experiment, lambda line: None, "test00")
    run = Run(experiment, arm.choice, experiment.seeds[0], "test00", arm.placement)
    engine.execute(run, RunFolder(folder), setting, lambda time_ns: None)
    found = pd.read_parquet(folder / "iterations.parquet")
    found = found[found.worker == 0]
    return found.assign(length_s=(found.end_ns - found.start_ns) / SECOND)


def test_cassini_moves_a_pair_apart_in_the_simulation(tmp_path: Path) -> None:
    brief = [f"cluster.jobs.{job}.iterations=9" for job in (0, 1)]
    found = iterations("cassini-cluster.yaml", "fq-codel+cassini", tmp_path, *brief)
    for _, own in found.groupby("job"):
        lengths = own.length_s.tolist()
        assert lengths[1:3] == pytest.approx([1.2] * 2, rel=0.01), "in step"
        assert lengths[5:] == pytest.approx([1.0] * 4, rel=0.01), "apart"


@pytest.mark.virtual
@pytest.mark.timeout(300)
def test_crux_decides_who_goes_first_on_a_kernel(tmp_path: Path) -> None:
    """Both jobs a tenth of their size; the second comes before the first's connections stand."""
    settings = [
        f"cluster.jobs.{job}.{key}={value}"
        for job, size, length in ((0, "25 MB", "200 ms"), (1, "12500 kB", "100 ms"))
        for key, value in (("bytes", size), ("compute", length))
    ]
    settings += ["duration=3 s", "sweep.jobs.values={tenth: {cluster.jobs.0.bytes: 25 MB}}"]
    changes = [word for one in settings for word in ("--set", one)]
    file, out = REPOSITORY / "experiments" / "crux-cluster.yaml", tmp_path / "out"
    done = giveway("sweep", file, "--engine", "virtual", "--out", out, *changes, limit_s=280)
    assert done.returncode == 0, done.stdout + done.stderr
    means = {}
    for label in ("crux", "longer-first"):
        [table] = out.glob(f"points/*/strict-priority+{label}/seed-0/iterations.parquet")
        rows = pd.read_parquet(table)
        lengths = (rows.end_ns - rows.start_ns).groupby(rows.job).mean() / SECOND
        means[label] = lengths.to_dict()
    assert means["crux"]["two-0"] < 0.7 * means["longer-first"]["two-0"]
    assert means["longer-first"]["one-0"] < 0.85 * means["crux"]["one-0"]


def test_crux_gives_the_link_to_the_short_job_in_the_simulation(tmp_path: Path) -> None:
    found = iterations("crux-cluster.yaml", "strict-priority+crux", tmp_path, "duration=40 s")
    lengths = found[found.iteration > 0].groupby("job").length_s.mean()
    assert lengths.to_dict() == pytest.approx({"one-0": 6, "two-0": 2}, rel=0.01)
