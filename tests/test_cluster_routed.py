"""A live cluster on several switches: which ways a job's connections take is not luck."""

from pathlib import Path

import pandas as pd
import pytest

from testbed.cluster.live_network import LiveNetwork
from testbed.spec import load
from tests.conftest import giveway
from tests.test_cluster_training import demand_right, tables
from topologies.plain import as_plain

FILE = """
name: routed
topology: {kind: leaf-spine, hosts: 4, leaves: 2, spines: 2, rate: 200 Mbit/s,
           delay: about 10 us, queue: 100 packets}
duration: 2500 ms
cluster:
  host: {gpu: 1}
  jobs:
    - {name: long, kind: training, count: 1, arrivals: at 0 s, demand: {gpu: 1}, workers: 3,
       profile: resnet50-thesis, model: 300 kB, iteration: 30 ms, iterations: 30}
    - {name: short, kind: training, count: 1, arrivals: at 300 ms, demand: {gpu: 1}, workers: 2,
       profile: resnet50-thesis, model: 300 kB, iteration: 20 ms, iterations: 10}
  checkpoint: {suspend: 10 ms, resume: 20 ms, size: 3 x model, band: low}
policies: [fifo, strict-priority]
placements: [srtf]
seeds: [0]
"""


def network(folder: Path, seed: int = 0) -> LiveNetwork:
    (folder / "routed.yaml").write_text(FILE)
    experiment = load(folder / "routed.yaml")
    assert experiment.cluster is not None
    jobs = experiment.cluster.drawn(200_000_000, 4, seed)
    return LiveNetwork(as_plain(experiment.topology.graph), seed, jobs)


def test_what_goes_between_racks_is_spread_over_all_ways(tmp_path: Path) -> None:
    known = network(tmp_path)
    loads = known.loads(0, (0, 1, 2))  # a ring: h1 to h2 to h3 and back
    assert len({byte for link, byte in loads.items() if "h" in link}) == 1
    whole = loads["h1->leaf1"]
    for link in ("leaf1->spine1", "leaf1->spine2", "spine1->leaf2", "leaf2->spine2"):
        assert loads[link] == pytest.approx(whole / 2, abs=1)
    assert not any("h4" in link for link in loads)
    assert known.around(["low"], "low", steered=False).rack == (0, 0, 1, 1)


def test_ports_follow_from_the_seed_and_the_placement(tmp_path: Path) -> None:
    ports = [network(tmp_path, seed).sources(0, epoch) for seed in (0, 1) for epoch in (1, 2)]
    assert ports[0] == network(tmp_path).sources(0, 1)
    assert len({tuple(own or ()) for own in ports}) == 4
    one_switch = LiveNetwork({"hosts": ["h1"], "switches": ["s1"], "links": []}, 0, [])
    assert one_switch.sources(0, 1) is None


@pytest.mark.virtual
def test_jobs_move_between_racks_and_take_the_same_ways_under_every_policy(tmp_path: Path) -> None:
    network(tmp_path)
    out = tmp_path / "out"
    done = giveway("run", str(tmp_path / "routed.yaml"), "--engine", "virtual", "--out", str(out))
    assert done.returncode == 0, done.stderr
    used = []
    for label in ("fifo+srtf", "strict-priority+srtf"):
        found = tables(out / label / "seed-0")
        demand_right(found, demands=1)
        assert {row["status"] for row in found["submissions"]} == {"finished"}
        assert any(row["why"] == "suspended" for row in found["stretches"])
        links = pd.read_parquet(out / label / "seed-0" / "links.parquet")
        sent = links.groupby(["link", "class"])["bytes"].max().groupby("link").sum()
        used.append({str(link) for link, byte in sent.items() if byte > 1_000_000})
    assert used[0] == used[1]
    assert any("spine" in link for link in used[0])
