"""A sweep through Slurm's queue: Debian's Slurm, whole, on the loopback interface."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.fluid import engine as fluid
from testbed.workers.clusters import WorkersPlace
from tests.test_dask import swept
from tests.test_shards import manifests
from tests.test_sweep import RUNS, SWEEP, until

CONF = """
ClusterName=loop
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoInAddrAny
AuthInfo=socket={place}/munge.sock
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:4
"""
OPTIONS = """
jobs: 2
memory: 1GB
walltime: "00:10:00"
interface: lo
job_directives_skip: ["--mem"]
log_directory: {place}/logs
wait: 90 s
"""


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A controller and a node on this machine; the file that --dask slurm: is given."""
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    (tmp_path / "munge.key").write_bytes(os.urandom(1024))
    (tmp_path / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF.format(host=host, place=tmp_path, ports=free_ports(2)))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    own = [f"--{what}-file={tmp_path}/munge.{what}" for what in ("key", "pid", "log", "seed")]
    try:
        for words in (
            ["munged", "--force", f"--socket={tmp_path}/munge.sock", *own],
            ["slurmctld"],
            ["slurmd", "-N", host],
        ):
            subprocess.run(words, check=True, capture_output=True, timeout=30)
        until(lambda: "idle" in output("sinfo", "-h", "-o", "%t"))
        options = tmp_path / "slurm.yaml"
        options.write_text(OPTIONS.format(place=tmp_path))
        yield options
    finally:
        for name in ("slurmd.pid", "slurmctld.pid", "munge.pid"):
            if (tmp_path / name).exists():
                ended(int((tmp_path / name).read_text()))


def output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def ended(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.dask
@pytest.mark.slurm
@pytest.mark.root
def test_jobs_of_slurm_run_the_sweep(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)
    swept(tmp_path, tmp_path / "out", WorkersPlace.read(f"slurm:{slurm}"))
    monkeypatch.setattr(fluid, "parallel", lambda experiment: 1)
    swept(tmp_path, tmp_path / "here", None)
    assert manifests(tmp_path / "out") == manifests(tmp_path / "here")
    assert len(manifests(tmp_path / "out")) == RUNS
    assert list((tmp_path / "logs").glob("dask-worker-*"))
    until(lambda: output("squeue", "-h") == "")  # the jobs are gone with the sweep
