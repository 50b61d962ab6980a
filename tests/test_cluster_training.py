"""Training jobs of a cluster in the simulation: whatever is decided, what holds of them."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics.errors import BadInput, RunFailed
from policies.cluster import Scheduler, schedulers
from policies.cluster.scheduler import (
    RUNNING,
    SUSPENDED,
    WAITING,
    Action,
    Event,
    Move,
    Prioritise,
    Resume,
    Ruling,
    Shift,
    Snapshot,
    Start,
    Suspend,
)
from testbed.engine import Run
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.run import in_turns
from testbed.spec import Experiment, load

FILE = """
name: trained
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 8 s
cluster:
  host: {gpu: 2}
  jobs:
    - {name: ring, kind: training, count: 3, arrivals: uniform over 300 ms, demand: {gpu: 1},
       profile: resnet50-thesis, model: 500 kB, iteration: 20 ms, workers: 2 to 3,
       iterations: 5 to 30}
    - {name: served, kind: training, count: 1, arrivals: at 100 ms, demand: {gpu: 1},
       profile: resnet50-thesis, model: 500 kB, iteration: 20 ms, workers: 2, servers: 1,
       aggregation: parameter-server, iterations: 20}
  checkpoint: {suspend: 10 ms, resume: 20 ms, size: 3 x model, band: low}
policies: [strict-priority]
placements: [srtf]
seeds: [0]
"""


def loaded(place: Path, text: str = FILE, *changes: str) -> Experiment:
    path = place / "experiment.yaml"
    path.write_text(text)
    return load(path, list(changes))


def played(
    experiment: Experiment, scheduler: Scheduler | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The records of the first run, rows by name; with a scheduler of the test's own, if any."""
    run = in_turns(experiment, "test00")[0]
    with pytest.MonkeyPatch.context() as patch:
        if scheduler is not None:
            patch.setitem(schedulers(), "srtf", scheduler)  # which has no options
        return {name: list(rows(name, found)) for name, found in recorded(run).items()}


def recorded(run: Run) -> dict[str, Any]:
    records = Records()
    fluid.perform(run, fluid.settle(run.experiment, print, "test00"), records, lambda time_ns: None)
    return records.tables


COLUMNS = {
    "iterations": "job worker iteration start_ns end_ns compute_ns wait_ns",
    "stretches": "job task host taken_ns start_ns end_ns free_ns why",
    "checkpoints": "job src dst byte priority start_ns end_ns",
    "submissions": "job submitted_ns tasks gang gpu duration_ns alone_ns share deadline_ns "
    "started_ns ended_ns status",
    "transfers": "job worker iteration transfer",
    "packs": "job beside start_ns end_ns",
}


def rows(table: str, found: list[Any]) -> Iterator[dict[str, Any]]:
    names = COLUMNS.get(table, "").split()
    return (dict(zip(names, row, strict=False)) for row in found)


def tables(run: Path) -> dict[str, list[dict[str, Any]]]:
    """A sealed run's tables, row by row, by the names that the simulation's have here."""
    return {
        name: pd.read_parquet(run / f"{name}.parquet")
        .rename(columns={"size_byte": "byte"})
        .to_dict("records")
        for name in COLUMNS
    }


def demand_right(found: dict[str, list[dict[str, Any]]], demands: int = 2) -> None:
    """No iteration twice or lost, none outside of a stretch, and no host too full."""
    stretches = defaultdict(list)
    for one in found["stretches"]:
        stretches[one["job"], one["task"]].append(one)
    for own in stretches.values():
        worked = [one for one in own if one["start_ns"] < one["end_ns"]]
        for before, after in pairwise(worked):
            assert before["end_ns"] <= after["start_ns"], "on two placements at once"
    iterations = defaultdict(list)
    for one in found["iterations"]:
        iterations[one["job"], one["worker"]].append(one)
    for key, made in iterations.items():
        assert [one["iteration"] for one in made] == list(range(len(made)))
        for one in made:
            inside = [
                stretch
                for stretch in stretches[key]
                if stretch["start_ns"] <= one["start_ns"] and one["end_ns"] <= stretch["end_ns"]
            ]
            assert len(inside) == 1, "an iteration belongs to one placement"
    numbers = defaultdict(list)
    for one in found.get("transfers", []):
        numbers[one["job"], one["worker"]].append(one["transfer"])
    assert all(len(set(own)) == len(own) for own in numbers.values())
    changes = sorted(
        [(one["free_ns"], 0, one["host"], -1) for one in found["stretches"]]
        + [(one["taken_ns"], 1, one["host"], 1) for one in found["stretches"]]
    )
    held: dict[str, int] = defaultdict(int)
    for _, _, host, change in changes:
        held[host] += change
        assert held[host] <= demands


def demand_done(found: dict[str, list[dict[str, Any]]]) -> None:
    made: dict[str, int] = defaultdict(int)
    for one in found["iterations"]:
        made[one["job"]] = max(made[one["job"]], one["iteration"] + 1)
    for job in found["submissions"]:
        assert job["status"] == "finished"
        assert job["duration_ns"] == job["alone_ns"]
        assert made[job["job"]] > 0


@pytest.mark.parametrize("name", ["fifo", "srtf", "gandiva-lite", "las", "tetris"])
def test_every_placement_finishes_all_jobs_and_loses_no_iteration(
    tmp_path: Path, name: str
) -> None:
    told = {"gandiva-lite": ", slice: 100 ms", "las": ", threshold: 1 s"}.get(name, "")
    experiment = loaded(tmp_path, FILE, f"placements=[{{placement: {name}{told}}}]")
    found = played(experiment)
    demand_right(found)
    demand_done(found)
    if name in ("srtf", "gandiva-lite"):
        assert any(one["why"] == "suspended" for one in found["stretches"])


def test_the_same_file_gives_the_same_records(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, FILE, "placements=[srtf]")
    assert played(experiment) == played(experiment)


# ---- decisions of any kind, as far as they are legal


def erratic(choices: list[int]) -> Scheduler:
    """Looks every 37 ms and does something legal, as the numbers say."""
    rest = iter(choices)

    def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        actions: list[Action] = []
        free = snapshot.free[:, 0] // 1000
        for job in range(len(snapshot.tasks)):
            own = snapshot.task_state[snapshot.tasks_of(job)]
            count = int(snapshot.tasks[job])
            room = np.repeat(np.arange(len(free)), free)
            turn = next(rest, 0) % 6
            if (own == WAITING).all() and len(room) >= count:
                chosen = room[:count] if turn % 2 else room[::-1][:count]
                actions.append(Start(job, tuple(chosen.tolist())))
            elif (own == SUSPENDED).all() and len(room) >= count:
                chosen = room[::-1][:count] if turn % 2 else room[:count]
                actions.append(Resume(job, tuple(chosen.tolist())))
            elif (own == RUNNING).all() and turn == 1:
                actions.append(Suspend(job))
            elif (own == RUNNING).all() and turn == 2 and len(room) >= count:
                chosen = room[:count]
                actions.append(Move(job, tuple(chosen.tolist())))
            elif (own == RUNNING).all() and turn == 3:
                actions.append(Shift(job, 5_000_000))
            elif turn == 4:
                actions.append(Prioritise(job, "high" if next(rest, 0) % 2 else "low"))
            for one in actions[-1:]:
                if isinstance(one, Start | Resume | Move) and one.job == job:
                    np.subtract.at(free, np.array(one.hosts), 1)
        return Ruling(tuple(actions), None, (snapshot.time_ns // 37_000_000 + 1) * 37_000_000)

    return Scheduler("erratic", "Erratic", "anything that is legal", decide, suspends=True)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(choices=st.lists(st.integers(0, 99), min_size=30, max_size=300))
def test_whatever_is_decided_no_iteration_is_lost_and_no_job_is_in_two_places(
    tmp_path: Path, choices: list[int]
) -> None:
    found = played(loaded(tmp_path), erratic(choices))
    demand_right(found)
    demand_done(found)


def test_a_move_sends_a_checkpoint_to_each_new_host_in_its_band(tmp_path: Path) -> None:
    one = FILE.replace("count: 3", "count: 1").replace("workers: 2 to 3", "workers: 2")
    one = one[: one.index("    - {name: served")] + one[one.index("  checkpoint:") :]
    one = one.replace("hosts: 3", "hosts: 4")

    def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        if event.what == "arrived":
            return Ruling((Start(0, (0, 1)),))
        if event.what == "profiled" and memory is None:
            return Ruling((Move(0, (1, 2)),), "moved")
        return Ruling((), memory)

    found = played(loaded(tmp_path, one), Scheduler("mover", "Mover", "", decide))
    demand_right(found)
    [sent] = found["checkpoints"]
    job = loaded(tmp_path, one).cluster
    assert job is not None
    model_byte = job.jobs[0].job.scaled_profile.total_byte
    assert (sent["src"], sent["dst"], sent["byte"]) == ("h1", "h3", 3 * model_byte)
    moved, landed = ([one for one in found["stretches"] if one["task"] == 0][at] for at in (0, 1))
    assert (moved["why"], landed["why"]) == ("moved", "finished")
    assert sent["start_ns"] == moved["end_ns"] + 10_000_000  # what a suspension takes
    assert moved["free_ns"] == sent["end_ns"]
    assert landed["start_ns"] == sent["end_ns"] + 20_000_000
    least_ns = sent["byte"] * 8 * 5  # at 200 Mbit/s
    assert sent["end_ns"] - sent["start_ns"] > least_ns


def test_a_shift_delays_one_iteration_by_as_much(tmp_path: Path) -> None:
    one = FILE.replace("count: 3", "count: 1").replace("iterations: 5 to 30", "iterations: 10")
    one = one[: one.index("    - {name: served")] + one[one.index("  checkpoint:") :]

    def shifting(by_ns: int) -> Scheduler:
        def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
            if event.what == "arrived":
                hosts = tuple(range(int(snapshot.tasks[0])))
                return Ruling((Start(0, hosts),))
            return Ruling((Shift(0, by_ns),) if event.what == "profiled" and by_ns else ())

        return Scheduler("shifting", "Shifting", "", decide)

    ends = [
        played(loaded(tmp_path, one), shifting(by_ns))["submissions"][0]["ended_ns"]
        for by_ns in (0, 7_000_000)
    ]
    assert ends[1] - ends[0] == pytest.approx(7_000_000, rel=0.02)


def test_what_a_policy_does_not_need_it_does_not_see(tmp_path: Path) -> None:
    seen: list[Snapshot] = []

    def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        seen.append(snapshot)
        return Ruling()

    for needs in (False, True):
        played(
            loaded(tmp_path),
            Scheduler("", "", "", decide, needs_durations=needs, needs_traffic=needs),
        )
    hidden, shown = seen[0].training, seen[-1].training
    assert hidden is not None
    assert shown is not None
    assert hidden.traffic is None
    assert hidden.iterations_left is None
    assert shown.traffic is not None
    assert shown.iterations_left is not None
    loads = shown.traffic.loads(0, (0, 1, 2)[: int(seen[-1].tasks[0])])
    assert max(loads.values()) == shown.traffic.sent_byte[0]
    with pytest.raises(ValueError, match="read-only"):
        shown.iterations_done[0] = 1


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (lambda: Shift(0, -1), "shifts ring-0 by less than nothing"),
        (lambda: Prioritise(0, "purple"), "puts ring-0 into purple; there are high"),
        (lambda: Move(0, (0,)), "moves ring-0 to 1 places"),
    ],
)
def test_an_illegal_decision_about_a_training_job_ends_the_run(
    tmp_path: Path, decision: Any, said: str
) -> None:
    one = FILE.replace("workers: 2 to 3", "workers: 2")

    def decide(snapshot: Snapshot, event: Event, memory: Any) -> Ruling:
        if event.what == "arrived" and event.jobs == (0,):
            return Ruling((Start(0, (0, 1)),))
        return Ruling((decision(),) if event.what == "profiled" else ())

    name = loaded(tmp_path, one).cluster
    assert name is not None
    first = name.drawn(200_000_000, 3, 0)[0].name
    with pytest.raises(RunFailed, match=said.replace("ring-0", first)):
        played(loaded(tmp_path, one), Scheduler("bad", "Bad", "", decide))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("cluster.jobs.0.workers=1", "jobs.0.workers: found 1; aggregation: ring needs 2 or more"),
        ("cluster.jobs.1.servers=3", "jobs.1.servers: found 3, and jobs of 2 workers"),
        ("cluster.jobs.0.tasks=2", "jobs.0.tasks: found beside kind: training"),
        ("cluster.jobs.0.epochs=2", "jobs.0.epochs: found beside iterations"),
        ("cluster.jobs.0.servers=1", "jobs.0.servers: found beside aggregation: ring"),
        ("cluster.jobs.0.workers=9", "jobs.0.workers: ring has up to 9 workers, and 3 hosts have"),
        ("cluster.jobs.0.kind=busy", "jobs.0.profile: found in busy jobs"),
        ("cluster.checkpoint.size=3", "checkpoint.size: found 3; write a size like 3 x model"),
        ("cluster.checkpoint={band: low}", "checkpoint.band: found without size"),
        ("cluster.jobs.0.profile=nobody", "jobs.0.profile: found 'nobody', an unknown profile"),
        ("cluster.jobs.0.arrivals=at noon", "jobs.0.arrivals: found 'noon'"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_line(
    tmp_path: Path, change: str, said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, FILE, change)
    assert said in str(refused.value)


def test_a_resolved_file_is_the_same_experiment(tmp_path: Path) -> None:
    experiment = loaded(tmp_path)
    again = tmp_path / "again.yaml"
    again.write_text(experiment.to_yaml())
    assert load(again).to_yaml() == experiment.to_yaml()
    assert load(again).cluster == experiment.cluster
