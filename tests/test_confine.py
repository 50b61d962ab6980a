"""A guest's kernel can change nothing outside of its folders, whatever root in the guest does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from testbed.virtual import confine, guest
from testbed.virtual.build import find
from testbed.virtual.guest import Guest, boot
from tests.conftest import ours

STRANGER = 65534


def offered(name: str) -> bool:
    """Whether this kernel, and this user, has a means."""
    probe = [sys.executable, "-I", "-S", confine.__file__, name, "0"]
    return bool(subprocess.run(probe, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def place() -> Iterator[Path]:
    """Not in tmp_path, which other users cannot enter."""
    with TemporaryDirectory(prefix="giveway-test-", dir="/tmp") as name:
        folder = Path(name)
        for each in (folder, folder / "inside", folder / "outside"):
            each.mkdir(exist_ok=True)
            each.chmod(0o777)
        (folder / "outside" / "kept").write_text("kept\n")
        (folder / "outside" / "kept").chmod(0o666)
        if os.geteuid() == 0:
            os.chown(folder / "outside" / "kept", STRANGER, STRANGER)
        yield folder


ATTEMPTS = {
    "make": "echo no > outside/new",
    "write": "echo no > outside/kept",
    "append": "echo no >> outside/kept",
    "cut short": "truncate -s 0 outside/kept",
    "remove": "rm -f outside/kept",
    "move away": "mv outside/kept inside/kept",
    "move there": "echo no > inside/x; mv inside/x outside/x",
    "make a folder": "mkdir outside/folder",
    "link": "ln -s /etc outside/link",
    "mount": "mount -o remount,rw / && echo no > outside/new",
    "mode": "chmod 777 outside/kept",
    "time": "touch -d 2001-01-01 outside/kept",
}
OF_MOUNTS = {"mode", "time"}  # which Landlock leaves open
SEEN = "cd outside && ls -lA --time-style=full-iso && cat kept"


def run_confined(means: str, place: Path, script: str, user: str) -> None:
    as_user = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    command = [sys.executable, "-I", "-S", confine.__file__, means, "1", str(place / "inside")]
    subprocess.run(
        [*(as_user if user == "nobody" else ()), *command, "/bin/sh", "-c", script],
        cwd=place, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize(
    ("means", "user"),
    [
        ("mounts", "root"),
        ("landlock", "root"),
        ("mounts,landlock", "root"),
        ("mounts,landlock", "nobody"),  # of which only Landlock is for everybody
    ],
)
def test_nothing_outside_can_be_changed(means: str, user: str, place: Path) -> None:
    if not all(map(offered, means.split(","))):
        pytest.skip(f"no {means} here")
    before = subprocess.check_output(["sh", "-c", SEEN], cwd=place)
    for name, attempt in ATTEMPTS.items():
        if name in OF_MOUNTS and (means == "landlock" or user == "nobody"):
            continue
        run_confined(means, place, attempt, user)
        assert subprocess.check_output(["sh", "-c", SEEN], cwd=place) == before, name
    run_confined(means, place, "echo yes > inside/new && mv inside/new inside/newer", user)
    assert (place / "inside" / "newer").read_text() == "yes\n"


def test_without_any_means_it_runs_all_the_same(place: Path) -> None:
    run_confined("", place, "echo yes > inside/new", "us")
    assert (place / "inside" / "new").read_text() == "yes\n"


def test_it_leaves_signals_as_programs_expect_them(place: Path) -> None:
    """Python ignores SIGPIPE, and what it starts would inherit that."""
    run_confined("", place, "grep SigIgn /proc/self/status > inside/ignored", "us")
    ignored = int((place / "inside" / "ignored").read_text().split()[1], 16)
    assert not ignored & 1 << 12  # SIGPIPE is 13


# The root as it is, and the host's files once more: over /tmp the guest has put memory of its own.
REMOUNT = """
mount -o remount,rw / || exit 9
mkdir /run/host && mount -t hostfs -o / none /run/host || exit 9
cd /run/host{place} || exit 9
{attempt}
true
"""


@pytest.mark.virtual
@pytest.mark.parametrize("means", ["mounts", "landlock", "mounts,landlock"])
def test_root_in_a_guest_that_mounts_the_host_again_writes_nothing(
    means: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not all(map(offered, means.split(","))):
        pytest.skip(f"no {means} here")
    monkeypatch.setattr(guest, "CONFINED_BY", tuple(means.split(",")))
    before = subprocess.check_output(["sh", "-c", SEEN], cwd=place)
    processes_before = ours()
    kernel = find()
    assert kernel is not None
    attempts = [
        f"( {attempt} )"
        for name, attempt in ATTEMPTS.items()
        if name not in OF_MOUNTS or "mounts" in means
    ]
    script = REMOUNT.format(place=place, attempt="\n".join(attempts))
    order = Guest(kernel.program, place / "inside", ("sh", "-c", script), 256 * 2**20, 30, "test00")
    boot(order, place / "console.log")
    assert subprocess.check_output(["sh", "-c", SEEN], cwd=place) == before
    assert ours() == processes_before
