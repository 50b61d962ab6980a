"""The fluid engine as a user meets it: deterministic, honest about what it is and cannot do."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from testbed.engine import Run
from testbed.fluid import compiled, engine
from testbed.fluid.world import Records
from testbed.spec import Experiment, load
from tests.conftest import REPOSITORY, giveway

ONE_BAND = """
name: one-band
question: Is a policy with everything in one band FIFO?
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 1 s
warmup: 100 ms
cooldown: 100 ms
training:
  - {name: job, profile: resnet50-thesis, model: 500 kB, workers: all, iteration: 120 ms,
     fusion: 100 kB, order: layer, barrier: false}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host, pairs: all-to-all}
policies:
  - fifo
  - {policy: strict-priority, label: strict, bands: {job: high}}
  - {policy: prio, label: prio, bands: {job: high}}
seeds: [0]
"""


TWO_RACKS = """
name: two-racks
topology: {kind: leaf-spine, hosts: 8, leaves: 2, spines: 2, oversubscription: 2,
           rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 300 ms
training:
  - {name: ring, profile: resnet50-thesis, model: 200 kB, iteration: 20 ms,
     workers: [h1, h5, h2, h6, h3, h7, h4, h8]}
policies: [fifo]
seeds: [0, 1]
"""


@pytest.fixture(scope="module")
def one_band(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    path = tmp_path_factory.mktemp("fluid") / "one-band.yaml"
    path.write_text(ONE_BAND)
    return load(path)


def records(experiment: Experiment, choice: int, seed: int = 0) -> dict[str, list[list[Any]]]:
    kept = Records()
    run = Run(experiment, experiment.policies[choice], seed, "test00")
    setting = engine.settle(experiment, print, run.run_id)
    engine.perform(run, setting, kept, lambda time_ns: None)
    return kept.tables


def test_the_same_seed_gives_the_same_records(one_band: Experiment) -> None:
    first = records(one_band, 0)
    assert first["end"]
    assert first["iterations"]
    assert records(one_band, 0) == first
    assert records(one_band, 0, seed=1)["end"] != first["end"]


def test_where_there_are_several_ways_a_seed_decides_them_for_training_too(tmp_path: Path) -> None:
    """Without flows, all seeds of a leaf-spine were one run, and its interval was of width 0."""
    path = tmp_path / "ring.yaml"
    path.write_text(TWO_RACKS)
    first, second = (records(load(path), 0, seed)["iterations"] for seed in (0, 1))
    assert len(first) > 8
    assert first != second


@pytest.mark.parametrize("choice", [1, 2])
def test_with_everything_in_one_band_every_policy_is_fifo(
    one_band: Experiment, choice: int
) -> None:
    fifo, other = records(one_band, 0), records(one_band, choice)
    for table in ("end", "iterations", "transfers"):
        assert other[table] == fifo[table], table


def test_a_run_gives_a_report_that_calls_itself_a_simulation(
    small_experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    simulate = ("run", small_experiment, "--engine", "fluid", "--set", "training.0.check=false")
    done = giveway(*simulate, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "In simulation, under Strict priority instead of FIFO" in done.stdout
    assert "(simulated)" in done.stdout
    page = " ".join((out / "report.html").read_text().split())
    assert "This is a simulation: rates are calculated, nothing was sent." in page
    assert "faithful" not in page
    manifest = json.loads((out / "fifo" / "seed-0" / "manifest.json").read_text())
    asked = {"tcp": "cubic", "delay_asked_ns": 10_000, "delay_strict": False}
    assert manifest["network"] == asked  # and nothing as if it had been measured
    for never in ("Idle round trip", "Segmentation offload", "Dilation"):
        assert never not in page
    (caution,) = manifest["fidelity"].pop("reasons")  # as that experiment's queue is so short
    assert caution.startswith("queue: 100 packets is outside of what the simulation was compared")
    assert manifest["fidelity"] == {"verdict": "simulated", "measured": {}}
    again = giveway(*simulate, "--out", tmp_path / "again")
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]  # the digest


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["training.0={name: job, profile: resnet32-cpu, backend: torch}"],
            "training.0.backend: torch",
        ),
        (["hosts=docker"], "hosts: docker needs `--engine realtime`"),
        (["tcp=bbr"], "tcp: bbr is not simulated"),
        (["tcp={rto_min: 1 ms}"], "tcp.rto_min: 1 ms is below a tick of the simulated kernel"),
        ([], "training.0.check: true adds real numbers up"),  # as the file says
        (["dilation=4"], "dilation: 4.0 makes no sense in a simulation"),
    ],
)
def test_what_only_a_kernel_can_do_is_refused_in_one_line(
    small_experiment: Path, tmp_path: Path, settings: list[str], said: str
) -> None:
    options = [word for setting in settings for word in ("--set", setting)]
    done = giveway(
        "run", small_experiment, "--engine", "fluid", "--out", tmp_path / "out", *options
    )
    assert done.returncode == 3
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_compiling_is_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    rehearsals: list[None] = []
    monkeypatch.setattr(compiled, "FOLDER", tmp_path / "fluid-x")

    def rehearse() -> None:
        rehearsals.append(None)
        (tmp_path / "fluid-x").mkdir()
        (tmp_path / "fluid-x" / "f.1.nbc").write_bytes(b"code")

    monkeypatch.setattr(compiled, "rehearse", rehearse)
    for _ in range(2):
        compiled.compile_once(said.append)
    assert len(said) == len(rehearsals) == 1
    assert said[0].startswith("compiling the simulator, once")


def test_the_replayed_schedule_runs_as_it_stands(tmp_path: Path) -> None:
    experiment = load(REPOSITORY / "experiments" / "replay.yaml")
    lines = (REPOSITORY / "experiments" / "replay.csv").read_text().splitlines()
    assert len(records(experiment, 0)["end"]) == len(lines) - 1


def test_what_nobody_uses_of_the_compiled_does_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / f"fluid-{age:012x}" for age in range(compiled.KEPT + 3)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (1e9 - age, 1e9 - age))
    oldest = folders[-1]
    monkeypatch.setattr(compiled, "FOLDER", oldest)
    (oldest / compiled.MARK).touch()
    os.utime(oldest, (0, 0))
    monkeypatch.setattr(compiled, "intact", lambda: True)
    compiled.compile_once(print)  # used once more, so it is the newest
    compiled.forget_old(tmp_path)
    assert set(tmp_path.iterdir()) == {oldest, *folders[: compiled.KEPT - 1]}


def test_what_somebody_uses_of_the_compiled_stays(tmp_path: Path) -> None:
    folders = {tmp_path / f"fluid-{number:012x}" for number in range(compiled.KEPT + 3)}
    for folder in folders:
        folder.mkdir()
    compiled.forget_old(tmp_path)
    assert set(tmp_path.iterdir()) == folders


def test_a_sender_hears_of_the_last_byte_when_word_has_come_back(one_band: Experiment) -> None:
    found = records(one_band, 0)
    ended, acked = (dict(map(tuple, found[name])) for name in ("end", "acknowledged"))
    assert 0.9 * len(ended) <= len(acked) <= len(ended)
    back_ns = sorted(acked[flow] - ended[flow] for flow in acked)
    assert back_ns[0] == 20_000  # two links of 10 us, nothing in between
    assert back_ns[-1] > 1_000_000  # behind the bytes of others
