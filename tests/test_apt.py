"""Installing packages waits for whoever else is at it, and says so."""

import fcntl
import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "apt.sh"
LOCKED = (
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)"
)


def installed(
    tmp_path: Path, fake: str, *packages: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the script with something in the place of apt-get (and of sudo)."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in {"apt-get": fake, "sudo": '"$@"'}.items():
        (tools / name).write_text(f"#!/bin/bash\ncd {tmp_path}\n{script}\n")
        (tools / name).chmod(0o755)
    return subprocess.run(
        [SCRIPT, *packages], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **variables, "PATH": f"{tools}:{os.environ['PATH']}"},
    )  # fmt: skip


@pytest.mark.parametrize("busy_in", ["update", "install"])
def test_a_held_lock_is_waited_for_and_named_once(busy_in: str, tmp_path: Path) -> None:
    fake = f"""
        echo "$@" >> calls
        case "$*" in *{busy_in}*)
            [ "$(grep -c {busy_in} calls)" -gt 2 ] || {{ echo "{LOCKED}" >&2; exit 100; }} ;;
        esac
        """
    done = installed(tmp_path, fake, "make")
    assert done.returncode == 0
    said = LOCKED.removeprefix("E: ")
    assert done.stderr == f"apt: waiting for another process: {said}\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 4
    assert calls[-1].endswith("install -y --no-install-recommends make")


def test_patience_ends(tmp_path: Path) -> None:
    done = installed(tmp_path, f'echo "{LOCKED}"; exit 100', "make", GIVEWAY_APT_LIMIT_S="2")
    assert done.returncode == 3
    assert "error: gave up after 2 s: Could not get lock" in done.stderr


def test_another_failure_is_shown_at_once(tmp_path: Path) -> None:
    fake = 'case "$*" in *install*) echo "E: Unable to locate package nonsense"; exit 100 ;; esac'
    done = installed(tmp_path, fake, "nonsense")
    assert done.returncode == 3
    assert "Unable to locate package nonsense" in done.stderr
    assert "error: `apt-get install` failed (100)" in done.stderr


@pytest.mark.skipif(which("apt-get") is None, reason="no apt here")
def test_apt_says_of_its_locks_what_the_script_looks_for(tmp_path: Path) -> None:
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    with (tmp_path / "lists" / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        own = [f"Dir::State::lists={tmp_path}/lists", "Dir::Etc::sourcelist=/dev/null",
               "Dir::Etc::sourceparts=/dev/null"]  # fmt: skip
        options = [word for setting in own for word in ("-o", setting)]
        command = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=2", *options, "update"]
        variables = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode != 0
    assert f"Could not get lock {tmp_path}/lists/lock" in done.stderr


def test_every_script_installs_through_it() -> None:
    for script in (REPOSITORY / "scripts").glob("*.sh"):
        if script != SCRIPT:
            words = script.read_text()
            assert "apt-get install" not in words, script.name
            assert "apt-get update" not in words, script.name
