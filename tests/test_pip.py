"""Installing Python packages says how far it is, and shows what pip says when it fails."""

import subprocess
from pathlib import Path

from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "pip.sh"


def installed(tmp_path: Path, fake: str) -> subprocess.CompletedProcess[str]:
    """Run the script with something in the place of pip."""
    pip = tmp_path / ".venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text(f"#!/bin/bash\n{fake}\n")
    pip.chmod(0o755)
    return subprocess.run(
        [SCRIPT, "-r", "wanted.txt"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_what_takes_long_is_said_and_what_does_not_is_not(tmp_path: Path) -> None:
    fake = """
        [ "$1 $4 $5 $6" = "install off -r wanted.txt" ] || exit 9
        echo Collecting quick==1; sleep 2.1; echo "Collecting slow==2 (from -r wanted.txt)"
        echo "  Downloading slow-2.whl"; echo "WARNING: you are root" >&2
        echo "Installing collected packages: quick, slow"
        """
    done = installed(tmp_path, fake)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "pip: found 2 packages, now slow==2 (from -r wanted.txt)",
        "pip: putting 2 packages into .venv",
    ]


def test_a_failure_is_shown(tmp_path: Path) -> None:
    done = installed(
        tmp_path, 'echo "ERROR: No matching distribution found for nobody" >&2; exit 1'
    )
    assert done.returncode == 3
    first, last = done.stderr.splitlines()
    assert first == "ERROR: No matching distribution found for nobody"
    assert last == "pip: error: `pip install -r wanted.txt` failed; its last lines are above"
