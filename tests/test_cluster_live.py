"""Training jobs of a cluster on a real kernel: daemons play them, the master leads, to the ns."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import giveway
from tests.test_cluster_training import COLUMNS, demand_right

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
    found = {
        name: pd.read_parquet(manifest.parent / f"{name}.parquet")
        .rename(columns={"size_byte": "byte"})
        .to_dict("records")
        for name in COLUMNS
    }
    demand_right(found, demands=2)
    assert {row["status"] for row in found["submissions"]} == {"finished"}
    whys = [row["why"] for row in found["stretches"] if row["job"] == "long-0"]
    assert "suspended" in whys
    assert whys[-1] == "finished"
    made = [row["iteration"] for row in found["iterations"] if row["job"] == "long-0"]
    assert max(made) == 29
    [sent] = found["checkpoints"]  # one of its two hosts is another one than before
    assert sent["end_ns"] - sent["start_ns"] > sent["byte"] * 8 * 5  # at 200 Mbit/s
