"""Runs take turns, so that a machine's worse minutes hit every policy alike."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from basics.errors import CannotRun
from testbed.realtime import engine
from testbed.run import in_turns
from testbed.spec import load
from tests.conftest import REPOSITORY

QUICKSTART = load(REPOSITORY / "experiments" / "quickstart.yaml")


def test_every_policy_meets_every_seed_once() -> None:
    runs = [(run.choice.label, run.seed) for run in in_turns(QUICKSTART, "test00")]
    labels = [choice.label for choice in QUICKSTART.policies]
    assert sorted(runs) == sorted((label, seed) for label in labels for seed in QUICKSTART.seeds)


def test_the_policies_of_a_seed_follow_each_other_and_take_turns_to_begin() -> None:
    runs = in_turns(QUICKSTART, "test00")
    assert [run.seed for run in runs] == [0, 0, 1, 1, 2, 2]
    first = [run.choice.label for run in runs[::2]]
    assert first == ["fifo", "strict-priority", "fifo"]


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engine, "LOCK", tmp_path / "lock")
    return tmp_path / "lock"


def test_one_realtime_run_at_a_time(lock: Path) -> None:
    with engine.exclusive(), pytest.raises(CannotRun, match="another realtime run"):
        engine.exclusive().__enter__()
    with engine.exclusive():
        pass


def test_the_turn_ends_with_the_process_that_had_it(lock: Path) -> None:
    """Even by kill -9, and though a child of it lives on."""
    code = f"""
import os, subprocess, sys, time
from pathlib import Path
from testbed.realtime import engine
engine.LOCK = Path({str(lock)!r})
turn = engine.exclusive()
turn.__enter__()
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with pytest.raises(CannotRun):
            engine.exclusive().__enter__()
        holder.kill()
    try:
        with engine.exclusive():
            pass
    finally:
        os.kill(child, 9)


@pytest.mark.root
def test_another_user_cannot_hold_the_turn(lock: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0giveway-realtime")  # any user can; it was the lock once
        with engine.exclusive():
            pass
    lock.parent.chmod(0o755)
    take = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "flock", "-n", lock]
    done = subprocess.run([*take, "true"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


@pytest.mark.root
def test_the_lock_is_where_only_root_can_make_files() -> None:
    status = engine.LOCK.parent.stat()
    assert (status.st_uid, status.st_mode & 0o022) == (0, 0)


def test_a_lock_that_leads_elsewhere_is_refused(lock: Path) -> None:
    lock.symlink_to("elsewhere")
    with pytest.raises(CannotRun, match="cannot be opened"):
        engine.exclusive().__enter__()
    assert not lock.with_name("elsewhere").exists()
