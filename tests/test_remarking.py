"""The band of a real Horovod job is changed from outside, while it trains."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from basics.bands import tos_of
from basics.errors import RunFailed
from tests.conftest import REPOSITORY
from workloads import marking

pytestmark = [pytest.mark.root, pytest.mark.timeout(240), pytest.mark.usefixtures("nothing_left")]

JOB = "remarked"  # a name that no other run beside the tests has
WORKERS = 4
START_LIMIT_S = 150
DURATION_S = 5
FILES = {"namespaces": "smoke-horovod.yaml", "docker": "smoke-horovod-docker.yaml"}


def start(hosts: str, out: Path) -> subprocess.Popen[str]:
    settings = [f"training.0.name={JOB}", f"duration={DURATION_S} s", "dilation=1", "flows=[]",
                "topology.rate=500 Mbit/s", "training.0.iteration=240 ms"]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "testbed", "run", str(REPOSITORY / "experiments" / FILES[hosts]),
         "--out", str(out), "--engine", "realtime", "--policy", "strict-priority", "--wait",
         *(word for setting in settings for word in ("--set", setting))],
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def workers() -> Iterator[int]:
    """The job's processes, as this machine sees them, in containers or not."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().startswith(f"{JOB}-h"):
                yield int(folder.name)
        except OSError:
            continue


def at_work(run: subprocess.Popen[str], band: str) -> list[int]:
    """The workers, once all have connections and all of those are in this band."""
    give_up_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up_s:
        assert run.poll() is None, run.communicate()[0]
        found = list(workers())
        try:
            marks = [marking.marks(pid) for pid in found]
        except RunFailed:
            continue
        if len(found) == WORKERS and all(set(of_one) == {tos_of(band)} for of_one in marks):
            return found
        time.sleep(0.05)
    raise AssertionError(f"the workers were never all in the band {band}")


@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param("namespaces", marks=pytest.mark.horovod),
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.docker_horovod]),
    ],
)
def test_a_horovod_job_changes_its_band_in_mid_training(hosts: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with start(hosts, out) as run:
        try:
            found = at_work(run, "low")
            time.sleep(DURATION_S / 3)  # a third of the run in the one band, the rest in the other
            for pid in found:
                assert marking.mark(pid, tos_of("high")) >= 2, "a neighbour on either side"
            time.sleep(0.5)
            for pid in found:
                assert set(marking.marks(pid)) == {tos_of("high")}
            said, _ = run.communicate(timeout=100)
        finally:
            run.kill()
    assert run.returncode == 0, said
    links = pd.read_parquet(out / "strict-priority" / "seed-0" / "links.parquet")
    for link, of_host in links[links.link.str.startswith("h")].groupby("link"):
        counted = of_host.pivot(index="time_ns", columns="class", values="bytes").sort_index()
        sent = counted - counted.iloc[0]  # one link was measured before the run
        changed_ns = sent.index[sent.low < sent.low.iloc[-1]].max()
        assert 0.1 < changed_ns / 1e9 / DURATION_S < 0.7, f"{link}: not while it trained"
        # In the high band: nothing before (but a sample's worth), and it trains on afterwards.
        assert sent.high.loc[:changed_ns].iloc[-1] < 0.1 * sent.high.iloc[-1]
        assert min(sent.low.iloc[-1], sent.high.iloc[-1]) > 2_000_000
    manifest = json.loads((out / "strict-priority/seed-0/manifest.json").read_text())
    assert manifest["hosts"] == hosts
    assert manifest["versions"]["horovod"].startswith("0.28.1+torch")
