"""Whole runs on the realtime engine: what they leave, and what happens when something breaks."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from basics.records import TABLES
from testbed.processes import CONTROLLER_VARIABLE, environment, start_time
from tests.conftest import REPOSITORY, giveway, ours

pytestmark = pytest.mark.root

TABLE_FILES = {f"{name}.parquet" for name in TABLES}


@pytest.fixture(scope="module")
def finished(small_experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run that went well; nothing else is left of it."""
    out = tmp_path_factory.mktemp("finished") / "out"
    before = ours()
    done = giveway("run", small_experiment, "--engine", "realtime", "--out", out)
    assert done.returncode == 0, done.stderr
    assert ours() - before == set()
    return out


def manifest(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "manifest.json").read_text())
    return content


def test_the_folder_is_as_designed(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {
        "experiment.yaml",
        "plan.json",
        "summary.json",
        "report.html",
        "fifo",
        "strict-priority",
    }
    for policy in ("fifo", "strict-priority"):
        run = finished / policy / "seed-0"
        assert {path.name for path in run.iterdir()} == TABLE_FILES | {"manifest.json", "logs"}
        for name, schema in TABLES.items():
            assert pq.read_schema(run / f"{name}.parquet").equals(schema)


def test_the_manifest_says_how_it_was_run_and_whether_to_believe_it(finished: Path) -> None:
    found = manifest(finished / "fifo" / "seed-0")
    assert found["status"] == "finished"
    assert (found["engine"], found["seed"], found["dilation"]) == ("realtime", 0, 1)
    assert found["fidelity"]["verdict"] in ("faithful", "doubtful", "broken")  # type: ignore[index]
    measured = found["fidelity"]["measured"]  # type: ignore[index]
    assert measured["shaped_rate_ratio"] > 0.5
    assert measured["sleep_late_p99_ns"] >= measured["sleep_late_p50_ns"] >= 0
    network = found["network"]
    assert network["idle_rtt_ns"] > 0  # type: ignore[index]
    assert all(port["asked_bps"] == port["read_bps"] for port in network["ports"])  # type: ignore[index]


def test_policies_see_the_same_flows(finished: Path) -> None:
    tables = [
        pd.read_parquet(finished / policy / "seed-0" / "flows.parquet")
        for policy in ("fifo", "strict-priority")
    ]
    planned = ["flow", "mix", "src", "dst", "size_byte", "scheduled_ns"]
    pd.testing.assert_frame_equal(tables[0][planned], tables[1][planned])
    assert len(tables[0]) > 50
    assert tables[0].priority.unique().tolist() == [0]


def test_flows_end_after_they_start_and_not_faster_than_the_line(finished: Path) -> None:
    flows = pd.read_parquet(finished / "fifo" / "seed-0" / "flows.parquet")
    done = flows.dropna(subset=["end_ns"])
    assert len(done) > 0.9 * len(flows)
    assert (done.start_ns >= done.scheduled_ns).all()
    large = done[done.size_byte > 100_000]
    assert ((large.end_ns - large.start_ns) > large.size_byte * 8 / 200e6 * 1e9 * 0.5).all()


def test_training_records_fit_together(finished: Path) -> None:
    run = finished / "strict-priority" / "seed-0"
    iterations = pd.read_parquet(run / "iterations.parquet")
    transfers = pd.read_parquet(run / "transfers.parquet")
    assert set(iterations.worker) == {0, 1, 2}
    assert (
        (iterations.end_ns - iterations.start_ns).sub(iterations.compute_ns) == iterations.wait_ns
    ).all()
    assert (iterations.wait_ns >= 0).all()
    whole = transfers[transfers.iteration < transfers.iteration.max()]
    sent = whole.groupby(["worker", "iteration"])["bytes"].sum()
    plan = json.loads((finished / "plan.json").read_text())
    assert (sent == plan["jobs"][0]["model_byte"]).all()
    assert (transfers.start_ns >= transfers.ready_ns).all()
    assert (transfers.end_ns > transfers.start_ns).all()
    assert set(transfers.priority) == {2}


def test_marks_reach_the_right_queues(finished: Path) -> None:
    links = pd.read_parquet(finished / "strict-priority" / "seed-0" / "links.parquet")
    total = links.groupby("class")["bytes"].max()
    assert total["high"] > 100_000
    assert total["low"] > 100_000
    assert total["middle"] < 10_000


def test_the_summary_has_what_the_report_shows(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    for policy in ("fifo", "strict-priority"):
        entry = summary["policies"][policy]
        assert entry["flows"]["small"]["fct_mean_ns"] > 0
        assert entry["training"]["job"]["iteration_mean_ns"] >= 120e6
    change = summary["policies"]["strict-priority"]["change"]["flows.small.fct_mean"]
    low, high = change["interval_95"]
    assert low <= change["change"] <= high


def test_the_resolved_file_runs_again(finished: Path, tmp_path: Path) -> None:
    again = giveway(
        "run",
        finished / "experiment.yaml",
        "--engine",
        "realtime",
        "--out",
        tmp_path / "out",
        "--policy",
        "fifo",
        "--set",
        "duration=400 ms",
        "--set",
        "warmup=50 ms",
        "--set",
        "cooldown=50 ms",
    )
    assert again.returncode == 0, again.stderr


@pytest.mark.usefixtures("nothing_left")
def test_dilation_keeps_experiment_time(small_experiment: Path, tmp_path: Path) -> None:
    done = giveway(
        "run",
        small_experiment,
        "--engine",
        "realtime",
        "--out",
        tmp_path / "out",
        "--policy",
        "fifo",
        "--set",
        "dilation=3",
    )
    assert done.returncode == 0, done.stderr
    iterations = pd.read_parquet(tmp_path / "out" / "fifo" / "seed-0" / "iterations.parquet")
    lengths = iterations.end_ns - iterations.start_ns
    assert lengths.median() == pytest.approx(120e6, rel=0.1)
    assert iterations.end_ns.max() < 1_000_000_000


def test_a_strict_delay_is_refused_where_the_kernel_has_no_netem(
    small_experiment: Path, tmp_path: Path
) -> None:
    from testbed import machine

    if "netem" in machine.probe().features:
        pytest.skip("this kernel has netem")
    done = giveway(
        "run", small_experiment, "--engine", "realtime", "--out", tmp_path / "out",
        "--set", "topology.delay=10 us",
    )  # fmt: skip
    assert done.returncode == 3
    assert "about 10 us" in done.stderr
    assert not (tmp_path / "out").exists()


# Faults


class Going:
    """A run under way, in its own process, with its tasks known."""

    def __init__(self, experiment: Path, out: Path, *settings: str) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "testbed", "run", str(experiment), "--out", str(out),
             "--engine", "realtime", "--wait", "--policy", "fifo", "--set", "duration=30 s",
             *settings],
            cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def task(self, log_name: str, label: str = "fifo") -> int:
        """The process that writes this log, once it is at work."""
        log = str(self.out / label / "seed-0" / "logs" / log_name)
        for _ in range(400):
            for folder in Path("/proc").iterdir():
                try:
                    if folder.name.isdigit() and os.readlink(folder / "fd/1") == log:
                        time.sleep(1)  # well into the run
                        return int(folder.name)
                except OSError:
                    continue
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate())
            time.sleep(0.05)
        raise AssertionError(f"no process ever wrote {log}")

    def ends_within(self, limit_s: float) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=limit_s)
        return self.process.returncode, errors


@pytest.fixture
def going(small_experiment: Path, tmp_path: Path) -> Iterator[Going]:
    before = ours()
    run = Going(small_experiment, tmp_path / "out")
    yield run
    if run.process.poll() is None:
        run.process.kill()
        run.process.communicate()
    giveway("clean")
    assert ours() - before == set()
    marker = tmp_path / "out" / "fifo" / "seed-0" / "manifest.json"
    assert not marker.exists() or manifest(marker.parent)["status"] == "failed"


def test_a_worker_that_dies_ends_the_run_with_its_name(going: Going) -> None:
    os.kill(going.task("jobs-h2.log"), signal.SIGKILL)
    code, errors = going.ends_within(5)
    assert code == 4
    assert re.search(r"jobs-h2 was killed by signal 9|jobs-h\d ended with code 1", errors)
    assert "Traceback (most recent call last)" not in errors.split("its log:")[0]


def test_a_worker_that_hangs_ends_the_run_with_its_name(going: Going) -> None:
    os.kill(going.task("jobs-h2.log"), signal.SIGSTOP)
    code, errors = going.ends_within(5)
    assert code == 4
    assert "jobs-h2 (process" in errors
    assert "silent" in errors


def test_ctrl_c_stops_within_two_seconds(going: Going) -> None:
    going.task("flows-h1.log")
    going.process.send_signal(signal.SIGINT)
    code, errors = going.ends_within(2)
    assert code == 130
    assert "interrupted" in errors


def test_a_killed_controller_takes_its_tasks_along(going: Going) -> None:
    task = going.task("jobs-h1.log")
    going.process.kill()
    going.process.communicate()
    for _ in range(300):
        if start_time(task) is None:
            break
        time.sleep(0.01)
    assert start_time(task) is None
    assert giveway("clean").returncode == 0


def test_a_second_run_is_told_to_wait(going: Going, small_experiment: Path, tmp_path: Path) -> None:
    going.task("jobs-h1.log")
    second = giveway(
        "run", small_experiment, "--engine", "realtime", "--out", tmp_path / "second", wait=False
    )
    assert second.returncode == 3
    assert "another realtime run" in second.stderr
    going.process.send_signal(signal.SIGTERM)
    assert going.ends_within(3)[0] == 130


@pytest.mark.usefixtures("nothing_left")
def test_a_port_that_cannot_be_bound_ends_the_run(small_experiment: Path, tmp_path: Path) -> None:
    lines = small_experiment.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if "name: job" in line)
    second = [lines[at].replace("name: job", "name: other"), lines[at + 1]]
    (tmp_path / "two.yaml").write_text("\n".join(lines[: at + 2] + second + lines[at + 2 :]))
    code = f"""
import sys
from testbed.live import host_configs
host_configs.job_port = lambda index: 7000  # both jobs want the same ports
sys.argv = ["giveway", "run", {str(tmp_path / "two.yaml")!r}, "--engine", "realtime",
            "--out", {str(tmp_path / "out")!r}]
from testbed.cli.commands import main
main()
"""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert re.search(r"jobs-h\d ended with code 1", done.stderr)
    assert "cannot bind 10.0.0" in done.stderr
    assert time.monotonic() - started < 20


@pytest.mark.usefixtures("nothing_left")
def test_a_full_disk_is_reported_and_nothing_is_marked_finished(
    small_experiment: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk], check=True)
    try:
        done = giveway("run", small_experiment, "--engine", "realtime", "--out", disk / "out")
        assert done.returncode == 4
        assert "space" in done.stderr
        for path in disk.rglob("manifest.json"):
            assert manifest(path.parent)["status"] != "finished"
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.usefixtures("nothing_left")
def test_clean_ends_only_what_has_no_controller(tmp_path: Path) -> None:
    mine = environment("test00")
    orphan = {**mine, CONTROLLER_VARIABLE: "4194303:1"}  # no such process
    sleepers = [subprocess.Popen(["sleep", "60"], env=variables) for variables in (orphan, mine)]
    try:
        done = giveway("clean")
        assert f"ended {sleepers[0].pid}" in done.stdout
        assert sleepers[0].wait(5) == -signal.SIGKILL
        assert sleepers[1].poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
