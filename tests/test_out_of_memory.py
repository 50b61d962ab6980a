"""A worker or a container for which memory runs out: named, and with what to do."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from basics.errors import RunFailed
from testbed.containers.memory import MOST_RELOADS, MemoryGroup, demand_progress
from testbed.engine import Run
from testbed.live.crew import kills_for_memory, memory_ran_out
from testbed.run_folder import RunFolder
from testbed.spec import load
from testbed.spec.hosts import ContainerSpec
from testbed.virtual import engine


@pytest.mark.virtual
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
def test_a_worker_out_of_memory_is_named(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a guest, whose memory can run out without harm to the machine."""
    changes = ["training.0.model=8 GB", "training.0.fusion=8 GB", "dilation=auto"]
    experiment = load(small_experiment, changes)
    monkeypatch.setattr(engine, "memory_byte", lambda experiment: 512 * 2**20)
    run = Run(experiment, experiment.policies[0], 0, "test00")
    setting = engine.settle(experiment, lambda line: None, run.run_id)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunFailed, match=r"(?s)Unable to allocate .*jobs-h\d.log"):
        engine.execute(run, folder, setting, lambda time_ns: None)
    assert '"failed"' in (folder.path / "manifest.json").read_text()


def test_a_kernel_that_counts_tells_who_was_killed_for_memory() -> None:
    assert kills_for_memory() is not None, "any ordinary kernel counts"
    assert memory_ran_out(3, 3) == ""
    assert memory_ran_out(3, 4).startswith(": memory ran out")
    assert memory_ran_out(None, None).startswith(": perhaps memory ran out")


# Containers


V1 = {"oom": "memory.oom_control", "line": "5:cpu,memory:/docker/x", "at": "memory/docker/x"}
V2 = {"oom": "memory.events", "line": "0::/docker/x", "at": "docker/x"}


@pytest.mark.parametrize("version", [V1, V2], ids=["cgroups 1", "cgroups 2"])
def test_what_the_kernel_counts_in_a_container_is_found(
    version: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(f"1:name=systemd:/y\n{version['line']}\n")
    group = tmp_path / "sys/fs/cgroup" / version["at"]
    group.mkdir(parents=True)
    (group / version["oom"]).write_text("oom_kill_disable 0\noom_kill 2\n")
    refaults = (
        "workingset_refault_anon 9\nworkingset_refault_file 5\ntotal_workingset_refault_file 8"
    )
    (group / "memory.stat").write_text(f"{refaults}\n")
    found = MemoryGroup(7, tmp_path)
    assert (found.kills, found.reloaded_byte) == (2, 5 * resource.getpagesize())
    assert MemoryGroup(8, tmp_path).reloaded_byte == 0, "a process that has ended"


def test_a_container_that_only_reloads_is_given_up() -> None:
    limits = ContainerSpec.model_validate({"memory": "64 MB"})
    group = SimpleNamespace(reloaded_byte=640_000_000)
    demand_progress("h1", group, limits)
    demand_progress("h1", group, ContainerSpec())
    group.reloaded_byte += 1
    with pytest.raises(RunFailed, match=r"h1 ran out of memory \(container.memory is 64 MB\)"):
        demand_progress("h1", group, limits)


READER = """
import os, sys, time
open("/sys/fs/cgroup/memory/" + sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
print("in", flush=True)
while True:
    with open(sys.argv[2], "rb") as file:
        while file.read(1 << 20): pass
"""


@pytest.mark.root
def test_reloading_is_seen_in_a_real_group(tmp_path: Path) -> None:
    """A process that reads a file of twice its memory, over and over, as torch's libraries are."""
    groups = Path("/sys/fs/cgroup/memory")
    if not (groups / "cgroup.procs").exists():
        pytest.skip("no memory cgroups of version 1 here")
    group = groups / f"giveway-test-{os.getpid()}"
    group.mkdir()
    try:
        limit = 16_000_000
        (group / "memory.limit_in_bytes").write_text(str(limit))
        large = tmp_path / "large"
        large.write_bytes(bytes(3 * limit))
        os.sync()
        with large.open("rb") as file:  # else its pages are this process's
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        command = [sys.executable, "-c", READER, group.name, large]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "in\n"
            found = MemoryGroup(reader.pid)
            give_up_s = time.monotonic() + 30
            while found.reloaded_byte < MOST_RELOADS * limit:
                assert time.monotonic() < give_up_s, found.reloaded_byte
                time.sleep(0.1)
            reader.kill()
    finally:
        group.rmdir()
