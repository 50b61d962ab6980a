"""Cleaning ends what is certainly ours and certainly dead, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import clean as cleaning
from testbed import processes
from testbed.containers import docker_engine
from testbed.containers.docker_engine import (
    BOOT_LABEL,
    CONTROLLER_LABEL,
    NAMESPACE_LABEL,
    RUN_LABEL,
)
from testbed.processes import is_gone, own_mark, start_time
from tests.conftest import REPOSITORY, giveway

NAMESPACE = os.stat("/proc/self/ns/pid").st_ino
DEAD = f"4194303:1:{NAMESPACE}"  # no process has this pid

# A controller and a task of it, in a pid namespace of their own: what a CI job in a container is.
ELSEWHERE = """
import subprocess, time
from testbed.processes import environment
task = subprocess.Popen(["sleep", "60"], env=environment("test00"))
print("up", flush=True)
raise SystemExit(task.wait() != 0)
"""


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


@contextmanager
def a_run_in_its_own_pid_namespace() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
         sys.executable, "-c", ELSEWHERE],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        assert run.stdout.readline() == "up\n"
        yield run
        run.kill()


@pytest.mark.root
def test_a_run_of_another_pid_namespace_is_left_alone() -> None:
    with a_run_in_its_own_pid_namespace() as run:
        [controller] = children(run.pid)
        [task] = children(controller)
        done = giveway("clean")
        assert str(task) not in done.stdout
        time.sleep(0.2)
        assert start_time(task) is not None
        assert run.poll() is None


def test_a_mark_tells_who_and_where() -> None:
    assert not is_gone(own_mark())
    assert is_gone(DEAD)
    started = start_time(os.getpid())
    assert is_gone(f"{os.getpid()}:{(started or 0) + 1}:{NAMESPACE}"), "the pid's next owner"


@pytest.mark.parametrize(
    "mark",
    [
        "4194303:1:4026530000",  # of another namespace
        "4194303:1",  # of an older Giveway, which did not say where
        "",
        "1:2:3:4",
        "x:1:4026531836",
        f"4194303:None:{NAMESPACE}",
    ],
)
def test_what_cannot_be_looked_up_here_is_not_called_gone(mark: str) -> None:
    assert not is_gone(mark)


@pytest.mark.root
def test_a_proc_of_other_pids_tells_nothing() -> None:
    """`unshare --pid` alone leaves the outer /proc: its numbers are not ours."""
    code = f"from testbed.processes import is_gone, own_mark; print(own_mark(), is_gone('{DEAD}'))"
    inside = ["unshare", "--pid", "--fork", sys.executable, "-c", code]
    done = subprocess.run(inside, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(":0 False\n")


def test_sockets_of_other_namespaces_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SOCKETS", tmp_path)
    monkeypatch.setattr(docker_engine, "engine", lambda: None)
    kept = {f"aaa:{own_mark()}", "bbb:4194303:1:4026530000", "ccc:4194303:1"}
    for name in (*kept, f"ddd:{DEAD}"):
        (tmp_path / name).mkdir()
    cleaning.clean_containers()
    assert {path.name for path in tmp_path.iterdir()} == kept


def container(name: str, status: str, mark: str, **labels: str) -> dict[str, object]:
    controller, _, namespace = mark.rpartition(":")
    labels |= {RUN_LABEL: "test00", CONTROLLER_LABEL: controller, NAMESPACE_LABEL: namespace}
    return {
        "Id": name,
        "Name": f"/{name}",
        "State": {"Status": status},
        "Config": {"Labels": labels},
    }


def test_containers_of_other_namespaces_and_machines_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = {BOOT_LABEL: docker_engine.boot_id()}, {BOOT_LABEL: "another-boot"}
    found = [
        container("dead", "running", DEAD, **here),
        container("alive", "running", own_mark(), **here),
        container("another-job", "running", "7:1:4026530000", **here),
        container("an-older-giveway", "running", DEAD),
        container("another-machine", "running", DEAD, **there),
        container("another-machine-that-just-begins", "created", DEAD, **there),
        container("before-the-power-cut", "exited", DEAD, **there),
    ]
    answers = {"ps": "all", "inspect": json.dumps(found)}
    monkeypatch.setattr(docker_engine, "engine", lambda: docker_engine.DockerEngine((), "0"))
    monkeypatch.setattr(docker_engine, "ask", lambda verb, *rest, **more: answers[verb])
    assert set(docker_engine.orphans()) == {"dead", "before-the-power-cut"}


def test_a_leftover_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "engine", lambda: None)
    marks = {**processes.environment("test00"), processes.CONTROLLER_VARIABLE: "4194303:1"}
    with subprocess.Popen(["sleep", "60"], env=marks) as left:
        assert left.pid in [leftover.pid for leftover in cleaning.clean()]
        assert left.wait(5) == -signal.SIGKILL


def test_folders_of_dead_guests_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(docker_engine, "engine", lambda: None)
    dead = tmp_path / f"giveway-boot-test00.{DEAD.replace(':', '.')}-abc"
    elsewhere = DEAD.replace(str(NAMESPACE), "4026530000").replace(":", ".")
    kept = {
        f"{cleaning.lodging_prefix('test00')}abc",
        f"giveway-boot-test00.{elsewhere}-abc",
        "giveway-boot-of_an_older",
        "something-else",
    }
    for name in (*kept, dead.name):
        (tmp_path / name).mkdir()
    (dead / "vm_file").touch()
    link = tmp_path / f"{dead.name}d"
    link.symlink_to("something-else")
    assert [str(leftover) for leftover in cleaning.clean_lodgings()] == [
        f"removed folder {dead} (run test00)"
    ]
    assert {path.name for path in tmp_path.iterdir()} == {*kept, link.name}


@pytest.mark.root
def test_folders_of_other_users_are_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SHARED_MEMORY", tmp_path)
    theirs = tmp_path / f"giveway-boot-test00.{DEAD.replace(':', '.')}-abc"
    theirs.mkdir()
    os.chown(theirs, 65534, -1)
    assert cleaning.clean_lodgings() == []
