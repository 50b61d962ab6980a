"""Training jobs of a cluster on a real kernel: daemons play them, the master leads, to the ns."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import giveway
from tests.test_cluster_training import demand_right, tables

FILE = """
name: live
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 3 s
cluster:
  host: {gpu: 1}
  jobs:
    - {name: long, kind: training, count: 1, arrivals: at 0 s, demand: {gpu: 1}, workers: 2,
       profile: resnet50-thesis, model: 300 kB, iteration: 30 ms, iterations: 30}
    - {name: first, count: 1, arrivals: at 1 ms, tasks: 1, demand: {gpu: 1}, duration: 500 ms}
    # Beside its server there is no network; two workers and one server use it.
    - {name: short, kind: training, count: 1, arrivals: at 300 ms, demand: {gpu: 0.5}, workers: 2,
       profile: resnet50-thesis, model: 300 kB, iteration: 20 ms, iterations: 10,
       aggregation: parameter-server}
  checkpoint: {suspend: 10 ms, resume: 20 ms, size: 3 x model, band: low}
policies: [strict-priority]
placements: [srtf]
seeds: [0]
"""


@pytest.mark.virtual
def test_jobs_are_suspended_moved_and_done_live_and_twice_the_same(tmp_path: Path) -> None:
    file = tmp_path / "live.yaml"
    file.write_text(FILE)
    digests = []
    for number in range(2):
        out = tmp_path / f"out-{number}"
        giveway("run", str(file), "--engine", "virtual", "--out", str(out))
        [manifest] = out.rglob("manifest.json")
        digests.append(json.loads(manifest.read_text())["digest"])
    assert digests[0] == digests[1]
    measured = json.loads(manifest.read_text())["fidelity"]["measured"]
    assert measured["checkpoints_left"] == 0, "there were some, and all are stale by now"
    found = tables(manifest.parent)
    demand_right(found, demands=2)
    assert {row["status"] for row in found["submissions"]} == {"finished"}
    whys = [row["why"] for row in found["stretches"] if row["job"] == "long-0"]
    assert "suspended" in whys
    assert whys[-1] == "finished"
    made = [row["iteration"] for row in found["iterations"] if row["job"] == "long-0"]
    assert max(made) == 29
    [sent] = found["checkpoints"]  # one of its two hosts is another one than before
    assert sent["end_ns"] - sent["start_ns"] > sent["byte"] * 8 * 5  # at 200 Mbit/s


BUSY = """
name: busy
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: about 10 us, queue: 100 packets}
duration: 5400 min
cluster:
  host: {gpu: 2}
  jobs:
    - {name: busy, count: 12, arrivals: poisson over 100 min, tasks: 1 to 2, demand: {gpu: 1},
       duration: 5 min to 90 min}
  checkpoint: {suspend: 100 ms, resume: 1 s}
  failures: [{host: h2, at: 120 min}]
placements: [srtf]
seeds: [0]
"""


@pytest.mark.virtual
def test_busy_jobs_are_sleeps_of_daemons_and_the_run_ends_with_the_last(tmp_path: Path) -> None:
    """The same decisions as in the simulation, a word to a daemon and back later at most.

    Where nothing in the simulation is due at the same nanosecond: no tasks that are no gang.
    """
    file = tmp_path / "busy.yaml"
    file.write_text(BUSY)
    found = {}
    for engine in ("fluid", "virtual"):
        out = tmp_path / engine
        done = giveway("run", str(file), "--engine", engine, "--out", str(out))
        assert done.returncode == 0, done.stderr
        [path] = out.rglob("stretches.parquet")
        found[engine] = pd.read_parquet(path).sort_values(["job", "task", "taken_ns"])
        jobs = pd.read_parquet(path.parent / "submissions.parquet")
        assert set(jobs.status) == {"finished"}
    names = ["job", "task", "host", "why"]
    fluid, virtual = (found[engine][names].values.tolist() for engine in ("fluid", "virtual"))
    assert fluid == virtual
    assert {"lost", "suspended", "finished"} <= set(found["virtual"].why)
    for column in ("start_ns", "end_ns"):
        late = found["virtual"][column].to_numpy() - found["fluid"][column].to_numpy()
        assert abs(late).max() < 10**6
    links = pd.read_parquet(path.parent / "links.parquet")
    assert links.time_ns.max() < 20 * 3600 * 10**9  # of 90 hours
