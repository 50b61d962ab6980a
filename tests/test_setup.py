"""What the set-up leaves to do for a first run: nothing."""

import os
import subprocess
from pathlib import Path

from testbed.fluid import FOLDER
from testbed.fluid.compiled import MARK
from tests.conftest import REPOSITORY


def set_up(**variables: str) -> subprocess.CompletedProcess[str]:
    """`make setup` on a machine that has every package."""
    return subprocess.run(
        ["scripts/setup.sh"], cwd=REPOSITORY, env={**os.environ, **variables},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_simulator_is_compiled_by_the_set_up_and_once() -> None:
    first, again = set_up(), set_up()
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert (FOLDER / MARK).exists()
    assert "compiling" not in again.stdout


def test_a_cache_that_others_may_write_to_is_one_line_of_the_set_up(tmp_path: Path) -> None:
    where = tmp_path / "open"
    where.mkdir()
    where.chmod(0o777)
    done = set_up(GIVEWAY_CACHE=str(where))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert f"others may write to {where}" in done.stderr
    assert "the simulator could not be compiled" in done.stdout
    assert list(where.iterdir()) == []


def test_another_machine_compiles_when_it_simulates(tmp_path: Path) -> None:
    where = tmp_path / "untouched"
    done = set_up(GIVEWAY_CACHE=str(where), GIVEWAY_COMPILE="no")
    assert done.returncode == 0, done.stderr
    assert not where.exists()


def test_the_set_up_ends_with_how_to_have_the_command_on_the_path() -> None:
    last = set_up().stdout.splitlines()[-1]
    line = last.split("'")[1]
    found = subprocess.run(
        ["bash", "-c", f"{line} && command -v giveway && giveway --help"], cwd=REPOSITORY,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(REPOSITORY / ".venv" / "bin" / "giveway"))
    assert "Usage: giveway" in found.stdout
