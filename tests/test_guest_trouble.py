"""What is said of a guest that fails: one line with the cause, and where the rest of it is."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from basics.errors import CannotRun, RunFailed
from testbed.clean import LODGING
from testbed.virtual import guest, guest_main
from tests import fake_kernel
from tests.conftest import REPOSITORY

ENDS = """
    open("folder/.guest-status", "w").write("1")
    print("reboot: Power down")
    """


def failure(script: str, file: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with pytest.raises(RunFailed) as caught:
        fake_kernel.play(dedent(script) + dedent(ENDS), file, place, monkeypatch)
    said = str(caught.value)
    assert "\n" not in said
    manifest = (place / "run" / "manifest.json").read_text()
    assert '"failed"' in manifest
    return said


def test_a_run_that_fails_in_the_guest_fails_with_its_own_words(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
    print("Traceback (most recent call last):\\n  File x\\nbasics.errors.RunFailed: of a traceback")
    import os
    os.write(0, b"100\\r\\nfailed: job-h1 ended; its log: /run/giveway/logs/job-h1.log\\r\\n")
    """
    said = failure(script, small_experiment, tmp_path, monkeypatch)
    logs = tmp_path / "run" / "logs"
    assert said == f"job-h1 ended; its log: {logs}/job-h1.log; all logs of the guest: {logs}"


def test_a_guest_that_leaves_no_words_is_quoted(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = failure('\nprint("giveway-init: no /proc\\n")', small_experiment, tmp_path, monkeypatch)
    console = tmp_path / "run" / "logs" / "console.log"
    assert said == (
        "the command in the guest ended with exit code 1; its console ends with "
        f"`giveway-init: no /proc`; all of it: {console}"
    )


@pytest.mark.parametrize(
    ("error", "said", "traceback"),
    [
        (RunFailed("job-h1 ended\nwith a log"), "job-h1 ended", False),
        (ValueError("odd\nvalue"), "unforeseen, in the guest: ValueError: odd", True),
        (OSError(28, "No space left on device"), "unforeseen, in the guest: OSError", True),
    ],
)
def test_in_the_guest_the_cause_is_left_in_one_line(
    error: Exception,
    said: str,
    traceback: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def play(path: Path) -> None:
        raise error

    monkeypatch.setattr(guest_main, "play", play)
    monkeypatch.setattr(guest_main, "PROGRESS", str(tmp_path / "tty1"))
    with pytest.raises(SystemExit, match="1"):
        guest_main.main(tmp_path)
    left = (tmp_path / "tty1").read_text()
    assert left.startswith(f"failed: {said}")
    assert left.count("\n") == 1
    assert ("Traceback" in capsys.readouterr().err) == traceback


# No room


def test_no_room_for_its_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=2**20))
    with pytest.raises(CannotRun, match=r"neither /dev/shm nor .* has 256 MiB .* TMPDIR"):
        guest.memory_folder(256 * 2**20)


def test_no_place_for_temporary_files_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(CannotRun, match="set TMPDIR"):
        guest.memory_folder(1)


@pytest.mark.root
@pytest.mark.virtual
def test_a_machine_without_room_is_told_so_before_anything_starts(
    small_experiment: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = "mount -t tmpfs -o size=256k tmpfs"
    script = f'{mount} /dev/shm && {mount} "$TMPDIR" && exec "$@"'
    run = ["run", small_experiment, "--engine", "virtual", "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "testbed", *run, "--set", "dilation=auto"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command], cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(small)}, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.startswith(f"giveway: neither /dev/shm nor {small} has ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_guest_leaves_no_folder(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure("import os; open(os.environ['TMPDIR'] + '/vm_file', 'w')", small_experiment, tmp_path,
            monkeypatch)  # fmt: skip
    mine = f"{LODGING}test00.{os.getpid()}."
    for parent in ("/dev/shm", tempfile.gettempdir()):
        assert [path for path in os.listdir(parent) if path.startswith(mine)] == []
