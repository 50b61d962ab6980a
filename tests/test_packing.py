"""Jobs that share GPUs: the law, what is never given, and whom gandiva-lite keeps together."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics.errors import CannotRun, RunFailed
from basics.options import Option
from basics.resources import GPU
from policies.cluster import Scheduler
from policies.cluster.scheduler import (
    LANDING,
    RUNNING,
    SUSPENDED,
    SUSPENDING,
    WAITING,
    Action,
    Event,
    Resume,
    Ruling,
    Snapshot,
    Start,
    Suspend,
)
from testbed.cluster.live_gpus import LiveGpus
from testbed.engine import demand_live_cluster
from testbed.fluid.refusals import demand_simulable
from testbed.spec import Experiment
from tests.conftest import giveway
from tests.test_cluster_training import demand_done, demand_right, loaded, played
from tests.test_cores import Timer
from workloads.cores import HostCores

# A megabyte around two workers takes 80 ms at 100 Mbit/s.
PAIR = """
name: packed
topology: {kind: tor, hosts: 2, rate: 100 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 100 s
cluster:
  host: {gpu: 1}
  jobs:
    - {name: job, kind: training, count: 2, arrivals: uniform over 100 ms, demand: {gpu: 1},
       bytes: BYTES, compute: COMPUTE, workers: 2, iterations: 60}
  checkpoint: {suspend: 10 ms, resume: 20 ms, size: 3 x model, band: low}
policies: [fifo]
placements: [{placement: gandiva-lite, slice: 1 s, pack: 2}]
seeds: [0]
"""
HALF = PAIR.replace("BYTES", "1 MB").replace("COMPUTE", "80 ms")
COMPUTES = PAIR.replace("BYTES", "10 kB").replace("COMPUTE", "160 ms")
ALONE = "placements=[{placement: gandiva-lite, slice: 1 s}]"


def last_end(found: dict[str, list[dict[str, int]]]) -> float:
    return max(one["ended_ns"] for one in found["submissions"]) / 1e9


def test_jobs_that_wait_half_of_their_time_gain_by_sharing_gpus(tmp_path: Path) -> None:
    packed, turns = (played(loaded(tmp_path, HALF, *more)) for more in ((), (ALONE,)))
    for found in (packed, turns):
        demand_done(found)
    assert last_end(turns) > 2 * 60 * 0.16  # one after the other, and what turns cost
    assert last_end(packed) < 0.8 * last_end(turns)
    [pack] = packed["packs"]
    assert pack["end_ns"] - pack["start_ns"] > 5e9, "they stay together until one is done"
    assert not turns["packs"]


def test_jobs_that_only_compute_are_parted_and_not_tried_again(tmp_path: Path) -> None:
    packed, turns = (played(loaded(tmp_path, COMPUTES, *more)) for more in ((), (ALONE,)))
    for found in (packed, turns):
        demand_done(found)
    [pack] = packed["packs"]
    assert pack["end_ns"] - pack["start_ns"] < 3e9
    assert last_end(packed) == pytest.approx(last_end(turns), rel=0.1)


def test_two_that_compute_at_once_have_half_of_the_gpu_each(tmp_path: Path) -> None:
    """By hand: 160 ms of compute take 320 while both compute."""
    found = played(loaded(tmp_path, COMPUTES))
    [pack] = found["packs"]
    inside = [
        one["end_ns"] - one["start_ns"]
        for one in found["iterations"]
        if one["start_ns"] > pack["start_ns"] + 0.4e9 and one["end_ns"] < pack["end_ns"]
    ]
    assert len(inside) >= 4
    assert inside == pytest.approx([0.32e9] * len(inside), rel=0.02)


@pytest.mark.parametrize("demand", [demand_live_cluster, demand_simulable])
def test_workers_compute_on_cores_or_on_gpus_that_are_shared(
    tmp_path: Path, demand: Callable[[Experiment], None]
) -> None:
    with pytest.raises(CannotRun, match="cores says what workers compute on already"):
        demand(loaded(tmp_path, HALF, "topology.cores=2"))
    demand(loaded(tmp_path, HALF))
    demand(loaded(tmp_path, HALF, "topology.cores=2", ALONE))


def test_workers_of_a_host_share_those_gpus_that_have_one_number() -> None:
    loop = Timer()
    cores = HostCores(None, loop.at)
    assert cores.of([], 0) is None, "nobody shares: nothing is counted"
    held = [cores.of(gpus, at) for gpus in ([3, 4], [3, 4], [5, 6]) for at in (0, 1)]
    assert held[0] is held[2]
    assert held[1] is held[3]
    assert len(set(map(id, held))) == 4
    assert cores.of([3, 4], 2) is None, "servers are not on GPUs"
    ended: dict[int, int] = {}
    for at, gpu in enumerate(held):
        assert gpu is not None
        gpu.compute(0, 100, partial(ended.__setitem__, at))
    loop.run()
    assert ended == {0: 200, 1: 200, 2: 200, 3: 200, 4: 100, 5: 100}
    shared = HostCores(1, loop.at)
    assert shared.of([], 0) is shared.of([], 1) is not None


def test_gpus_have_new_numbers_at_each_placement_and_a_mates_where_they_are_shared() -> None:
    gpus = LiveGpus(shared=True)
    assert gpus.begun(7, 2) == {"gpus": [0, 1]}
    gpus.share(8, 7)
    assert gpus.begun(8, 2) == {"gpus": [0, 1]}
    gpus.left(7)
    assert gpus.begun(9, 2) == {"gpus": [2, 3]}, "those of 8 are still its own"
    gpus.left(8)
    assert gpus.begun(8, 2) == {"gpus": [4, 5]}
    assert LiveGpus(shared=False).begun(7, 2) == {}, "what is said is as it was"


@pytest.mark.virtual
def test_two_that_compute_at_once_have_half_of_a_gpu_each_on_a_kernel(tmp_path: Path) -> None:
    """Twice the same; by hand as above, and words between hosts take their time."""
    file = tmp_path / "packed.yaml"
    file.write_text(COMPUTES.replace("iterations: 60", "iterations: 20"))
    digests, found = [], {}
    for number in range(2):
        out = tmp_path / f"out-{number}"
        done = giveway("run", str(file), "--engine", "virtual", "--out", str(out))
        assert done.returncode == 0, done.stderr
        [manifest] = out.rglob("manifest.json")
        digests.append(json.loads(manifest.read_text())["digest"])
        for table in ("packs", "iterations", "submissions"):
            found[table] = pd.read_parquet(manifest.parent / f"{table}.parquet").to_dict("records")
    assert digests[0] == digests[1]
    assert {one["status"] for one in found["submissions"]} == {"finished"}
    [pack] = found["packs"]
    inside, outside = [], []
    for one in found["iterations"]:
        if one["start_ns"] > pack["start_ns"] + 0.4e9 and one["end_ns"] < pack["end_ns"]:
            inside.append(one["end_ns"] - one["start_ns"])
        elif one["end_ns"] < pack["start_ns"] or one["start_ns"] > pack["end_ns"] + 0.4e9:
            outside.append(one["end_ns"] - one["start_ns"])
    assert len(inside) >= 4
    assert inside == pytest.approx([0.32e9] * len(inside), rel=0.03)
    assert np.median(outside) == pytest.approx(0.16e9, rel=0.03)


# ---- decisions of any kind, as far as they are legal

OWN = "placements=[srtf]"  # which the test's own scheduler takes the place of
MANY = HALF.replace("count: 2", "count: 6").replace("iterations: 60", "iterations: 6")


def joining(choices: list[int], pack: int, most: int) -> Scheduler:
    """Starts, suspends and puts beside each other whom the choices say; up to `most` at once."""

    def decide(snapshot: Snapshot, event: Event, memory: int | None, **told: int) -> Ruling:
        at = memory or 0
        choice = choices[at % len(choices)]
        first = snapshot.task_state[snapshot.first_task].tolist()
        runs = [job for job, state in enumerate(first) if state == RUNNING]
        holds = [job for job, state in enumerate(first) if state in HOLDING]
        held = 1000 if holds else 0  # of each host: its one GPU, once, however many are on it
        assert (snapshot.free[:, GPU] == snapshot.capacity[:, GPU] - held).all()
        waits = [job for job, state in enumerate(first) if state in (WAITING, SUSPENDED)]
        action: Action | None = None
        if choice == 0 and runs:
            action = Suspend(runs[at % len(runs)])
        elif waits:
            job = waits[at % len(waits)]
            enter = Resume if snapshot.suspended[job] else Start
            if (snapshot.free[:, GPU] >= snapshot.demand[job][GPU]).all():
                action = enter(job, (0, 1))
            elif choice > 1 and runs and len(holds) < most:
                action = enter(job, (0, 1), runs[at % len(runs)])
        look_ns = snapshot.time_ns + 50_000_000
        return Ruling(() if action is None else (action,), at + 1, look_ns)

    options = {"pack": Option("", 1, 9, pack)}
    return Scheduler("joining", "", "", decide, options, suspends=True)


HOLDING = (LANDING, RUNNING, SUSPENDING)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(choices=st.lists(st.integers(0, 3), min_size=3, max_size=12), pack=st.integers(2, 3))
def test_a_gpu_is_never_given_to_more_than_pack_jobs(
    tmp_path: Path, choices: list[int], pack: int
) -> None:
    found = played(loaded(tmp_path, MANY, OWN), joining([*choices, 1, 2], pack, pack))
    demand_right(found, demands=pack)
    demand_done(found)
    for one in found["packs"]:
        assert one["start_ns"] <= one["end_ns"]
        assert one["job"] != one["beside"]


def test_one_job_too_many_ends_the_run_with_the_placements_name(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"joining puts job-. beside job-., whose GPUs 2 jobs have"):
        played(loaded(tmp_path, MANY, OWN), joining([2], 2, 9))


def test_gpus_are_given_once_where_the_placement_may_not_pack(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="what a host has is given once"):
        played(loaded(tmp_path, MANY, OWN), joining([2], 1, 9))
