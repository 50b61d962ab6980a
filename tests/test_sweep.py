"""Sweeps from end to end on an engine that plays nothing: kept, verified, resumed, refused."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from basics.errors import BadInput, RunFailed
from testbed import engines
from testbed.progress import OneBar
from testbed.spec import sweep_file
from testbed.sweep import run_sweep
from testbed.sweep_folder import claimed, take_stock
from tests.conftest import REPOSITORY, ours
from tests.test_sweep_spec import BASE

SWEEP = BASE + "sweep: {topology.hosts: [3, 4], training.0.iteration: [120 ms, 240 ms]}\n"
RUNS = 4 * 2 * 2


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.MODULES, "fake", "tests.fake_engine")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "small.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def finished(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole sweep; tests take copies of it apart."""
    out = tmp_path_factory.mktemp("finished") / "out"
    engines.MODULES["fake"] = "tests.fake_engine"
    sweep(file, out)
    del engines.MODULES["fake"]
    return out


def sweep(file: Path, out: Path, *settings: str) -> str:
    """Run it, and return what it said."""
    with (out.parent / "said").open("w+") as said:
        console = Console(file=said, width=200)
        run_sweep(
            sweep_file.load(file, settings), out, "fake", "test", lambda n: OneBar(console, n)
        )
        said.seek(0)
        return said.read()


def states(out: Path) -> dict[str, int]:
    """When each run was sealed: a run that was kept has its old time."""
    return {
        str(path.parent.relative_to(out)): path.stat().st_mtime_ns
        for path in out.glob("points/*/*/seed-*/manifest.json")
        if '"status": "finished"' in path.read_text()
    }


def test_every_point_policy_and_seed_is_run_by_helpers(finished: Path) -> None:
    assert len(states(finished)) == RUNS
    processes = {path.read_text() for path in finished.glob("points/*/*/*/logs/process")}
    assert str(os.getpid()) not in processes
    assert len(processes) == 2  # as many as the engine says, and warm from run to run


def test_the_table_has_every_metric_of_every_point(finished: Path) -> None:
    table = pd.read_parquet(finished / "summary.parquet")
    keys = ["topology.hosts", "training.0.iteration", "policy", "metric"]
    assert not table.duplicated(keys).any()
    one = table.set_index(keys)
    assert one.loc[("3", "120 ms", "fifo", "training.job.iteration_mean"), "value"] == 120e6
    assert one.loc[("4", "240 ms", "fifo", "training.job.iteration_mean"), "value"] == 240e6
    change = one.loc[("3", "120 ms", "strict-priority", "flows.small.fct_mean")]
    assert change["change"] == pytest.approx(-0.5)
    assert change["change_low"] <= -0.5 <= change["change_high"]
    assert change["reduction_thesis"] == pytest.approx(1.0)
    assert change["against"] == "fifo"
    assert change["seeds"] == 2
    page = (finished / "report.html").read_text()
    assert page.count("<svg") == 3 + 3 * 2  # maps of three metrics, lines at two sizes each


def test_a_finished_sweep_is_verified_and_runs_nothing(file: Path, finished: Path) -> None:
    before = states(finished)
    assert f"{RUNS} are done already" in sweep(file, finished)
    assert states(finished) == before


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


BREAKS = {
    "half a manifest": lambda run: (run / "manifest.json").write_text('{"status": "fini'),
    "failed": lambda run: (run / "manifest.json").write_text('{"status": "failed"}'),
    "a table is gone": lambda run: (run / "hosts.parquet").unlink(),
    "a table is cut short": lambda run: os.truncate(run / "links.parquet", 40),
    "other records": lambda run: shutil.copy(
        run.parent.parent.parent / "3-4_240-ms" / "fifo" / "seed-0" / "flows.parquet", run
    ),
    "one byte of any table": lambda run: flip(run / "links.parquet"),
    "only journals": lambda run: [path.unlink() for path in run.iterdir() if path.is_file()],
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_run_is_run_again_and_the_others_are_kept(
    file: Path, finished: Path, tmp_path: Path, broken: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    victim = "points/0-3_120-ms/fifo/seed-0"
    BREAKS[broken](out / victim)
    before = states(out)
    said = sweep(file, out)
    if broken != "nothing":
        assert f"run again: {victim}: " in said
    after = states(out)
    assert len(after) == RUNS
    changed = {run for run in after if after[run] != before.get(run)}
    assert changed == {victim}
    assert pd.read_parquet(out / "summary.parquet").equals(
        pd.read_parquet(finished / "summary.parquet")
    )


@pytest.mark.parametrize("link", ["0-3_120-ms", "0-3_120-ms/fifo", "0-3_120-ms/fifo/seed-0"])
def test_nothing_is_removed_through_a_link(
    file: Path, finished: Path, tmp_path: Path, link: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    elsewhere = tmp_path / "elsewhere"
    (out / "points" / link).rename(elsewhere)
    (out / "points" / link).symlink_to(elsewhere)
    manifest = out / "points/0-3_120-ms/fifo/seed-0/manifest.json"
    manifest.write_text('{"status": "failed"}')
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(BadInput, match=f"{link} is a link"):
        sweep(file, out)
    assert sorted(elsewhere.rglob("*")) == before
    assert manifest.exists()


def test_a_point_of_another_experiment_is_not_trusted(
    file: Path, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    described = out / "points" / "0-3_120-ms" / "experiment.yaml"
    described.write_text(described.read_text().replace("500 kB", "600 kB"))
    survey = take_stock(sweep_file.load(file), out, "fake", "test00")
    assert survey.kept == RUNS - 4
    assert list(survey.wanting) == ["0-3_120-ms"]


@pytest.mark.parametrize(
    "setting", ["topology.queue=99 packets", "seeds=[0]", "sweep={topology.hosts: [3]}"]
)
def test_a_changed_file_is_refused_and_nothing_is_touched(
    file: Path, finished: Path, tmp_path: Path, setting: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with pytest.raises(BadInput, match="changed since") as caught:
        sweep(file, out, setting)
    assert "\n" not in str(caught.value)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_folder_of_something_else_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match="is not a sweep"):
        sweep(file, tmp_path / "out")


def test_two_at_once_are_refused(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out), pytest.raises(BadInput, match="another sweep"):
        sweep(file, out)
    assert not (out / "points").exists()


def test_a_failing_policy_does_not_stop_the_others(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("GIVEWAY_FAKE_FAIL", "strict-priority")
    with pytest.raises(RunFailed, match=f"8 of {RUNS} runs failed.*as told"):
        sweep(file, out)
    monkeypatch.delenv("GIVEWAY_FAKE_FAIL")
    assert "8 are done already" in sweep(file, out)


CLI = "from testbed import engines; engines.MODULES['fake'] = 'tests.fake_engine'; \
from testbed.cli.commands import main; main()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_an_interrupted_sweep_goes_on_where_it_was(
    file: Path, finished: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    before = ours()
    command = [sys.executable, "-c", CLI, "sweep", file, "--engine", "fake", "--out", out]
    slow = os.environ | {"GIVEWAY_FAKE_SLEEP_S": "0.5"}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=slow, stderr=subprocess.PIPE, text=True
    ) as running:
        until(lambda: len(states(out)) >= 3)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    if number == signal.SIGINT:
        assert running.returncode == 130
        assert said.startswith("giveway: interrupted; finished runs are kept")
        assert said.count("\n") == 1
    until(lambda: ours() <= before)  # helpers have noticed that they are alone
    kept = states(out)
    assert 3 <= len(kept) < RUNS
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} are done already" in done.stdout
    assert kept.items() <= states(out).items()
    assert len(states(out)) == RUNS
    assert pd.read_parquet(out / "summary.parquet").equals(
        pd.read_parquet(finished / "summary.parquet")
    )


def until(condition: object, limit_s: float = 60) -> None:
    give_up_s = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
