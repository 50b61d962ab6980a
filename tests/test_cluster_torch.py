"""PyTorch jobs of a cluster: what was suspended and moved has every bit of what was not."""

import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from basics.errors import BadInput, CannotRun
from testbed import stacks
from testbed.fluid import engine as fluid
from testbed.spec import Experiment, load
from testbed.virtual.stack_memory import of_stacks
from tests.conftest import REPOSITORY, giveway
from tests.test_cluster_training import demand_right, tables
from tests.test_realtime import Going
from workloads.checkpoints import sealed, whole
from workloads.sockets import TaskError

SHIPPED = REPOSITORY / "experiments" / "cluster-torch.yaml"

# From three ranks on the order of a sum matters, and so what a bucket of DDP is: see the rehearsal.
FILE = """
name: torch
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: about 10 us, queue: 1000 packets}
duration: 2500 ms
cluster:
  host: {gpu: 1}
  jobs:
    - {name: long, kind: training, backend: torch, count: 1, arrivals: at 0 s, demand: {gpu: 1},
       profile: resnet50-thesis, model: 300 kB, iteration: 40 ms, workers: 3, iterations: 24,
       fusion: 50 kB}
    - {name: first, count: 1, arrivals: at 1 ms, tasks: 1, demand: {gpu: 1}, duration: 500 ms}
    # Both of its workers are on one host, where they need no network.
    - {name: short, kind: training, backend: torch, count: 1, arrivals: at 250 ms,
       demand: {gpu: 0.5}, profile: resnet50-thesis, model: 300 kB, iteration: 20 ms, workers: 2,
       iterations: 20}
  checkpoint: {suspend: 10 ms, resume: 20 ms, band: low}
policies: [strict-priority]
placements: [srtf, fifo]
seeds: [0]
"""


def loaded(place: Path, *changes: str) -> Experiment:
    path = place / "torch.yaml"
    path.write_text(FILE)
    return load(path, list(changes))


def run(place: Path, *changes: str) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The manifest and the records under each placement."""
    file, out = place / "torch.yaml", place / f"out-{len(list(place.iterdir()))}"
    file.write_text(FILE)
    settings = [part for change in changes for part in ("--set", change)]
    command = ["run", str(file), "--engine", "virtual", "--out", str(out), *settings]
    done = giveway(*command, limit_s=600)
    assert done.returncode == 0, done.stderr
    found = {}
    for path in out.rglob("manifest.json"):
        records = tables(path.parent)
        manifest = json.loads(path.read_text())
        found[manifest["placement"]["placement"]] = manifest, records
    return found


def demand_all_made(records: dict[str, Any]) -> None:
    demand_right(records)
    assert {row["status"] for row in records["submissions"]} == {"finished"}
    made = defaultdict(list)
    for row in records["iterations"]:
        made[row["job"], row["worker"]].append(row["iteration"])
    wanted = {("long-0", at): range(24) for at in range(3)}
    wanted |= {("short-0", at): range(20) for at in range(2)}
    assert made == {key: list(iterations) for key, iterations in wanted.items()}


def whys(records: dict[str, Any]) -> list[str]:
    own = [row for row in records["stretches"] if (row["job"], row["task"]) == ("long-0", 0)]
    return [row["why"] for row in own]


@pytest.mark.torch
@pytest.mark.virtual
@pytest.mark.timeout(1500)
def test_training_that_was_suspended_and_moved_ends_with_the_bits_of_training_that_was_not(
    tmp_path: Path,
) -> None:
    """And a host that dies takes what was made since the last checkpoint, which is made again."""
    found = run(tmp_path)
    (moved, records), (stayed, others) = found["srtf"], found["fifo"]
    for one in (records, others):
        demand_all_made(one)
    assert whys(records) == ["suspended", "finished"]
    assert whys(others) == ["finished"]
    assert moved["states"] == stayed["states"]
    assert set(moved["states"]) == {"long-0", "short-0"}
    [sent] = records["checkpoints"]  # to the one host that the job was not on before
    assert sent["byte"] > 3 * 300_000  # the weights, and Adam's two numbers for each of them
    assert sent["priority"] == 2  # low
    assert sent["end_ns"] - sent["start_ns"] > sent["byte"] * 8  # at 1 Gbit/s
    assert others["checkpoints"] == []

    failing = run(tmp_path, "placements=[srtf]", "cluster.failures=[{host: h3, at: 800 ms}]")
    lost, records = failing["srtf"]
    demand_all_made(records)
    assert whys(records) == ["suspended", "lost", "finished"]
    assert len(records["checkpoints"]) == 2
    assert lost["states"] == stayed["states"]
    assert lost["lost"] == ["daemon-h3 was killed by signal 9: as cluster.failures wants it"]


@pytest.mark.torch
@pytest.mark.virtual
@pytest.mark.timeout(1500)
def test_the_shipped_experiment_gives_the_same_digest_twice(tmp_path: Path) -> None:
    digests = []
    for number in range(2):
        out = tmp_path / f"out-{number}"
        done = giveway("run", SHIPPED, "--engine", "virtual", "--out", out, limit_s=600)
        assert done.returncode == 0, done.stderr
        manifests = [json.loads(path.read_text()) for path in sorted(out.rglob("manifest.json"))]
        digests.append([manifest["digest"] for manifest in manifests])
        assert manifests[0]["states"] == manifests[1]["states"]
    assert digests[0] == digests[1]


@pytest.mark.root
@pytest.mark.torch
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
def test_a_worker_that_dies_ends_the_run_with_a_line_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "torch.yaml"
    file.write_text(FILE)
    going = Going(file, tmp_path / "out", "--set", "cluster.jobs.0.iterations=2000")
    try:
        while not list((tmp_path / "out").rglob("long-0-1-1.log")):  # others have a turn first
            assert going.process.poll() is None, going.process.communicate()
            time.sleep(0.1)
        os.kill(going.task("long-0-1-1.log", "strict-priority+fifo"), signal.SIGKILL)
        code, errors = going.ends_within(60)
    finally:
        going.process.kill()
    assert code == 4
    assert "long-0-1-1 was killed by signal 9" in errors
    assert "Traceback" not in errors


# ---- what is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["cluster.jobs.0.backend=horovod"], "found 'horovod', an unknown backend; known: native,"),
        (["cluster.jobs.1.backend=torch"], "cluster.jobs.1.backend: found in busy jobs"),
        (["cluster.jobs.0.aggregation=parameter-server"], "a parameter-server job is native"),
        (["cluster.jobs.0.barrier=false"], "found false beside backend: torch"),
        (["cluster.jobs.0.workers=1"], "aggregation: ring needs 2 or more"),
        (["cluster.checkpoint.size=3 x model"], "torch's, which send what state they have"),
        (["placements=[{placement: gandiva-lite, pack: 2}]"], "placements.0.pack: found 2, and"),
        (["policies=[slack-aware]"], "policies.0: found slack-aware, which moves workers"),
        (["topology.cores=2"], "topology.cores: found 2 beside backend: torch"),
        (
            ["cluster.jobs.0.backend=native", "cluster.jobs.2.backend=native"],
            "cluster.checkpoint.band: found without size",
        ),
    ],
)
def test_what_real_jobs_cannot_do_is_one_line(
    tmp_path: Path, changes: list[str], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, *changes)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_simulation_has_no_real_jobs(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"cluster\.jobs\.0\.backend: torch is real software"):
        fluid.demand(loaded(tmp_path))


def test_real_jobs_of_a_cluster_need_torch_and_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = loaded(tmp_path)
    assert stacks.preload(experiment) == ["workloads.placed_torch", "workloads.torch_worker"]
    assert of_stacks(experiment) > 2**30
    native = ("cluster.jobs.0.backend=native", "cluster.jobs.2.backend=native")
    plain = loaded(tmp_path, *native, "cluster.checkpoint={size: 3 x model}")
    assert stacks.preload(plain) == []
    assert of_stacks(plain) == 0
    monkeypatch.setattr(stacks, "version", lambda package: None)
    with pytest.raises(
        CannotRun, match=r"cluster\.jobs\.0\.backend: torch needs torch.*make torch"
    ):
        stacks.demand_stacks(experiment)
    stacks.demand_stacks(plain)


def test_the_resolved_file_says_who_trains(tmp_path: Path) -> None:
    assert loaded(tmp_path).to_yaml().count("backend: torch") == 2
    native = [f"cluster.jobs.{at}.backend=native" for at in (0, 2)]
    assert "backend" not in loaded(tmp_path, *native, "cluster.checkpoint={}").to_yaml()


def test_half_a_checkpoint_is_none() -> None:
    content = sealed(b"state" * 100)
    assert whole(memoryview(content), "it") == b"state" * 100
    for damaged in (content[:-1], content[:40] + b"x" + content[41:], b""):
        with pytest.raises(TaskError, match="it was damaged on its way"):
            whole(memoryview(damaged), "it")
