"""Hosts of a cluster that die: jobs go back to their last checkpoint, and nothing counts twice."""

import json
import os
import signal
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics.errors import BadInput, RunFailed
from basics.resources import amounts
from policies.cluster import Scheduler, schedulers
from policies.cluster.scheduler import Event, Move, Resume, Ruling, Snapshot, Start, Suspend
from testbed.cluster.daemons import SILENT_NS, Listening
from testbed.cluster.master import Master
from testbed.cluster.prices import Prices
from testbed.run import in_turns
from testbed.sealing import without_undone
from testbed.spec import Experiment
from tests.conftest import giveway
from tests.test_cluster_training import FILE, demand_right, erratic, loaded, recorded, rows, tables
from tests.test_realtime import Going
from workloads.busy_job import BusyJob
from workloads.placed_ranks import ALIVE_NS

MS = 10**6


def played(experiment: Experiment, scheduler: Scheduler | None = None) -> dict[str, Any]:
    """As sealed: without what was lost."""
    run = in_turns(experiment, "test00")[0]
    with pytest.MonkeyPatch.context() as patch:
        if scheduler is not None:
            patch.setitem(schedulers(), "srtf", scheduler)
        found = without_undone(recorded(run))
    return {name: list(rows(name, table)) for name, table in found.items()}


def demand_lost(found: dict[str, Any], failures: dict[str, int]) -> None:
    """Nobody is on a host after it died, and whoever was there at that time was put off."""
    for one in found["stretches"]:
        died_ns = failures.get(one["host"])
        assert died_ns is None or one["free_ns"] <= died_ns
        assert one["taken_ns"] <= one["start_ns"] <= one["end_ns"] <= one["free_ns"]
    if not failures:
        assert all(one["why"] != "lost" for one in found["stretches"])


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    choices=st.lists(st.integers(0, 99), min_size=30, max_size=300),
    deaths=st.dictionaries(st.sampled_from(["h1", "h3", "h4"]), st.integers(1, 1500), max_size=2),
    size=st.booleans(),
)
def test_whatever_is_decided_and_whoever_dies_each_iteration_counts_once(
    tmp_path: Path, choices: list[int], deaths: dict[str, int], size: bool
) -> None:
    text = FILE.replace("hosts: 3", "hosts: 5").replace("duration: 8 s", "duration: 20 s")
    if not size:
        text = text.replace(", size: 3 x model, band: low", "")
    failures = [{"host": host, "at": f"{at_ms} ms"} for host, at_ms in deaths.items()]
    experiment = loaded(tmp_path, text, f"cluster.failures={json.dumps(failures)}")
    found = played(experiment, erratic(choices))
    demand_right(found)
    demand_lost(found, {host: at_ms * MS for host, at_ms in deaths.items()})
    assert {job["status"] for job in found["submissions"]} == {"finished"}
    assert experiment.cluster is not None
    made: dict[str, set[int]] = defaultdict(set)
    for one in found["iterations"]:
        made[one["job"]].add(one["iteration"])
    for job in experiment.cluster.drawn(200 * MS, 5, 0):
        assert job.work is not None
        assert made[job.name] == set(range(job.work.iterations))  # each, and none more often


PAIR = FILE.replace("count: 3", "count: 1").replace("workers: 2 to 3", "workers: 2")
PAIR = PAIR[: PAIR.index("    - {name: served")] + PAIR[PAIR.index("  checkpoint:") :]
PAIR = PAIR.replace("iterations: 5 to 30", "iterations: 30").replace("hosts: 3", "hosts: 4")


def mover(at: dict[str, Any]) -> Scheduler:
    """Starts the job on h1 and h2, does once what it is told at an event, and places it on others.

    `at`: what to do when that happens.
    """

    def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        if event.what == "arrived":
            return Ruling((Start(0, (0, 1)),))
        if event.what in at and event.what not in (memory or ()):
            return Ruling((at[event.what],), (*(memory or ()), event.what))
        room = np.flatnonzero(snapshot.free[:, 0] >= 1000)[-2:].tolist()
        if snapshot.suspended[0]:
            return Ruling((Resume(0, tuple(room)),), memory)
        if snapshot.waiting[0]:
            return Ruling((Start(0, tuple(room)),), memory)
        return Ruling((), memory)

    return Scheduler("mover", "Mover", "", decide)


@pytest.mark.parametrize(
    ("at", "dies", "kept"),
    [
        ({}, "h2", 0),  # it was never suspended
        ({"profiled": Suspend(0)}, "h4", 1),  # of h3 and h4, where it went on, the other has it
        ({"profiled": Suspend(0), "suspended": Resume(0, (2, 2))}, "h3", 0),  # nobody else has it
    ],
)
def test_a_job_goes_on_from_the_checkpoint_that_is_left(
    tmp_path: Path, at: dict[str, Any], dies: str, kept: int
) -> None:
    experiment = loaded(
        tmp_path, PAIR, f"cluster.failures=[{{host: {dies}, at: 700 ms}}]", "cluster.host.gpu=2"
    )
    raw = recorded_with(experiment, mover(at))
    [(_, first, lost_ns)] = raw["undone"]
    assert lost_ns == 700 * MS
    assert (first > 0) == bool(kept)
    found = {name: list(rows(name, table)) for name, table in without_undone(raw).items()}
    demand_right(found)
    demand_lost(found, {dies: lost_ns})
    whys = [one["why"] for one in found["stretches"] if one["task"] == 0]
    assert whys == [*["suspended"] * bool(at), "lost", "finished"]
    twice = len(raw["iterations"]) - len(found["iterations"])
    assert twice > 0
    assert len(found["iterations"]) == 60  # 30 of two workers


def recorded_with(experiment: Experiment, scheduler: Scheduler) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(schedulers(), "srtf", scheduler)
        return recorded(in_turns(experiment, "test00")[0])


def test_a_move_whose_aim_dies_becomes_a_suspension(tmp_path: Path) -> None:
    """The job itself loses nothing: it rests where it is, and goes on elsewhere."""
    slow = PAIR.replace("iteration: 20 ms", "iteration: 200 ms")
    moving = mover({"profiled": Move(0, (2, 3))})
    before = played(loaded(tmp_path, slow), moving)
    rests_ns = next(one["end_ns"] for one in before["stretches"] if one["why"] == "moved")
    death = f"cluster.failures=[{{host: h4, at: {rests_ns // MS - 50} ms}}]"
    found = played(loaded(tmp_path, slow, death), moving)
    demand_right(found)
    whys = [one["why"] for one in found["stretches"] if one["task"] == 0]
    assert whys == ["suspended", "lost", "finished"]
    assert found["submissions"][0]["status"] == "finished"


# ---- busy jobs: the mechanism alone


def busy(name: str, submitted: int, tasks: int, *, gang: bool, length: int = 1000) -> BusyJob:
    return BusyJob(name, submitted, length, tasks, amounts({"gpu": 1000}), gang=gang)


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 4), st.booleans(), st.integers(1, 2000)),
        min_size=1,
        max_size=12,
    ),
    deaths=st.dictionaries(st.integers(0, 4), st.integers(0, 4000), max_size=3),
    name=st.sampled_from(["fifo", "srtf", "las", "gandiva-lite", "tetris", "tetris-2014"]),
)
def test_busy_jobs_are_done_once_whoever_dies(
    jobs: list[tuple[int, int, bool, int]], deaths: dict[int, int], name: str
) -> None:
    told = {"gandiva-lite": {"slice_ns": 100}, "las": {"threshold_ns": 300}}.get(name, {})
    made = sorted(
        (busy(f"j{at}", when, tasks, gang=gang, length=length)
         for at, (when, tasks, gang, length) in enumerate(jobs)),
        key=lambda job: job.submitted_ns,
    )  # fmt: skip
    chosen = {key.removesuffix("_ns"): value for key, value in told.items()}
    master = Master(made, 5, amounts({"gpu": 2000}), schedulers()[name].told(chosen), Prices(7, 11))
    for host, at_ns in deaths.items():
        master.at(at_ns, lambda host=host: master.lose(host))  # type: ignore[misc]
    master.run(10**6)
    held: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for one in master.stretches:
        for task, host in zip(one.tasks.tolist(), one.hosts.tolist(), strict=True):
            assert host not in deaths or one.free_ns <= deaths[host]
            held[host] += [(one.taken_ns, 1), (one.free_ns, -1)]
            ends[one.job, task].append(one)
    for changes in held.values():
        assert max(np.cumsum([change for _, change in sorted(changes)])) <= 2
    for (job, _), own in ends.items():
        own.sort(key=lambda one: (one.taken_ns, one.start_ns))
        assert [one.why == "finished" for one in own] == [False] * (len(own) - 1) + [True]
        for before, after in pairwise(own):
            assert before.end_ns <= after.start_ns
        kept = sum(one.end_ns - one.start_ns for one in own if one.why != "lost")
        assert kept == made[job].duration_ns
    assert len(ends) == sum(job.tasks for job in made)
    assert (master.ledger.free[master.ledger.up] == master.ledger.capacity[0]).all()
    assert not master.ledger.running.any()
    assert not master.ledger.waiting.any()
    assert not master.ledger.suspended.any()


def test_a_job_that_fits_nowhere_any_more_ends_the_run() -> None:
    wide = busy("wide", 0, 2, gang=True)
    master = Master([wide], 2, amounts({"gpu": 1000}), schedulers()["fifo"])
    master.at(5, lambda: master.lose(1))
    with pytest.raises(RunFailed, match="wide fits nowhere any more: h2 died at 5 ns, and 1 hosts"):
        master.run(10**6)


# ---- what is refused, and who is silent


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ("[{host: h9, at: 1 s}]", "failures.0.host: found 'h9'; the hosts are h1 to h3"),
        ("[{host: h1, at: 1 s}, {host: h1, at: 2 s}]", "failures.1.host: found 'h1' twice"),
        ("[{host: h1, at: 8 s}]", "failures.0.at: found 8 s, and the run is over before that"),
        ("[{host: h1}]", "failures.0.at: missing"),
    ],
)
def test_a_failure_that_cannot_happen_is_refused(tmp_path: Path, failures: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, FILE, f"cluster.failures={failures}")
    assert said in str(refused.value)


def test_failures_are_in_the_resolved_file(tmp_path: Path) -> None:
    plain = loaded(tmp_path, FILE, "cluster.failures=[{host: h2, at: 1500 ms}]").to_yaml()
    assert "host: h2" in plain
    assert "failures" not in loaded(tmp_path).to_yaml()


@given(beats=st.integers(0, 20), phase=st.integers(0, ALIVE_NS - 1))
def test_who_falls_silent_is_noticed_within_two_seconds(beats: int, phase: int) -> None:
    listening = Listening()
    listening.expect([3, 4], 0)
    events = [(phase + beat * ALIVE_NS, 1, 3) for beat in range(beats)]
    events += [(phase + beat * ALIVE_NS, 1, 4) for beat in range(beats + 10)]
    events += [(look * ALIVE_NS, 0, 0) for look in range(1, beats + 7)]
    last_ns = max((time for time, _, host in events if host == 3), default=0)
    for now_ns, what, host in sorted(events):
        if what:
            listening.heard(host, now_ns)
        elif gone := listening.look({3, 4}, now_ns):
            assert gone == [3]
            assert SILENT_NS < now_ns - last_ns <= 2 * 10**9
            return
    pytest.fail("nobody noticed")


def test_who_looks_late_takes_nobody_for_dead() -> None:
    listening = Listening()
    listening.expect([1], 0)
    assert listening.look({1}, 10 * ALIVE_NS) == []
    assert listening.look(set(), 11 * ALIVE_NS) == []
    assert not len(listening)


# ---- on a kernel

LIVE = """
name: dying
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 3 s
cluster:
  host: {gpu: 1}
  jobs:
    - {name: long, kind: training, count: 1, arrivals: at 0 s, demand: {gpu: 1}, workers: 2,
       profile: resnet50-thesis, model: 300 kB, iteration: 30 ms, iterations: 30}
    - {name: short, kind: training, count: 1, arrivals: at 300 ms, demand: {gpu: 1}, workers: 3,
       profile: resnet50-thesis, model: 300 kB, iteration: 20 ms, iterations: 10}
  checkpoint: {suspend: 10 ms, resume: 20 ms, size: 3 x model, band: low}
  failures: [{host: h2, at: 1 s}]
policies: [strict-priority]
placements: [srtf]
seeds: [0]
"""


KILLED = "daemon-h2 was killed by signal 9: as cluster.failures wants it"


@pytest.mark.virtual
def test_a_daemon_that_dies_costs_what_was_not_saved_and_twice_the_same(tmp_path: Path) -> None:
    file = tmp_path / "dying.yaml"
    file.write_text(LIVE)
    digests = []
    for number in range(2):
        out = tmp_path / f"out-{number}"
        giveway("run", str(file), "--engine", "virtual", "--out", str(out))
        [path] = out.rglob("manifest.json")
        manifest = json.loads(path.read_text())
        assert manifest["lost"] == [KILLED]
        digests.append(manifest["digest"])
    assert digests[0] == digests[1]
    found = tables(path.parent)
    demand_right(found, demands=1)
    assert {row["status"] for row in found["submissions"]} == {"finished"}
    whys = [row["why"] for row in found["stretches"] if row["job"] == "long-0"]
    assert set(whys) == {"suspended", "lost", "finished"}
    lost = [row for row in found["stretches"] if row["why"] == "lost"]
    assert {row["host"] for row in lost} >= {"h2"}
    assert all(10**9 <= row["free_ns"] < 10**9 + MS for row in lost)  # noticed at once
    made = sorted(row["iteration"] for row in found["iterations"] if row["job"] == "long-0")
    assert made == sorted([*range(30), *range(30)])  # of two workers, each once


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_that_is_killed_or_hangs_is_missed_in_real_time(
    tmp_path: Path, how: signal.Signals
) -> None:
    """Who is killed closes its connection; who hangs says nothing, and is missed within 2 s."""
    file = tmp_path / "dying.yaml"
    text = LIVE[: LIVE.index("    - {name: short")] + LIVE[LIVE.index("  checkpoint:") :]
    text = text.replace("  failures: [{host: h2, at: 1 s}]\n", "dilation: 1\n")
    file.write_text(
        text.replace("strict-priority", "fifo").replace("iterations: 30", "iterations: 90")
    )
    going = Going(file, tmp_path / "out", "--set", "duration=9 s")
    os.kill(going.task("daemon-h2.log", "fifo+srtf"), how)
    code, errors = going.ends_within(60)
    assert code == 0, errors
    [path] = (tmp_path / "out").rglob("manifest.json")
    [lost] = json.loads(path.read_text())["lost"]
    assert lost.startswith("daemon-h2 was killed by signal 9")
    stretches = pd.read_parquet(path.parent / "stretches.parquet").to_dict("records")
    assert [row["why"] for row in stretches if row["task"] == 0] == ["lost", "finished"]
    iterations = pd.read_parquet(path.parent / "iterations.parquet")
    assert sorted(iterations.iteration) == sorted([*range(90), *range(90)])
    made_ns = iterations[iterations.start_ns > stretches[-1]["start_ns"]].start_ns.min()
    assert made_ns >= stretches[0]["free_ns"]  # not before it was put off its hosts
