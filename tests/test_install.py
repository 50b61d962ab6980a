"""`pip install .` somewhere else: one package with everything in it, and a command that works."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from setup import CODE, DATA, FOR_TEACHERS
from testbed import __version__
from tests import first_steps
from tests.conftest import PYTHON_313, REPOSITORY


def done(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env={**clean, **variables},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def tracked() -> list[str]:
    return subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY,
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: the build leaves folders beside what it builds."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    made = done(*pip, "-w", built, source, cwd=source)
    assert made.returncode == 0, made.stderr
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what it depends on is borrowed from ours."""
    place = tmp_path_factory.mktemp("environment")
    assert done(sys.executable, "-m", "venv", "--without-pip", place, cwd=place).returncode == 0
    inside = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", inside, "install", "-q"]
    put = done(*pip, "--no-deps", "--no-index", wheel, cwd=place)
    assert put.returncode == 0, put.stderr
    [packages] = place.glob("lib/python*/site-packages")
    # The folder alone: what its own .pth files would add, a clone, is not looked at.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return inside


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_a_wheel_has_one_package_and_every_file_of_ours(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in inside} == {
        "giveway",
        f"giveway-{__version__}.dist-info",
    }
    wanted = {name for name in tracked() if name.partition("/")[0] in (*CODE, *DATA)}
    for_teachers = {name for name in wanted if f"/{FOR_TEACHERS}/" in name}
    wanted -= for_teachers
    assert for_teachers
    assert not {name for name in inside if f"/{FOR_TEACHERS}/" in name}
    assert len(wanted) > 300
    assert {name for name in wanted if f"giveway/home/{name}" not in inside} == set()


def test_other_peoples_environments_get_no_modules_of_ours(python: Path, empty: Path) -> None:
    for name in (*CODE, *DATA, "bench", "tests"):
        assert done(python, "-c", f"import {name}", cwd=empty).returncode != 0, name
    code = "import sys, giveway; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = done(python, "-c", code, cwd=empty)
    assert loaded.returncode == 0, loaded.stderr
    assert not set(loaded.stdout.split()) & set(CODE)


def starting(python: Path, folder: Path, **variables: str) -> first_steps.Started:
    """Programs of an environment, in a folder."""

    def start(words: Sequence[str], more: dict[str, str]) -> first_steps.Done:
        program = python.with_name(words[0])
        return done(program, *words[1:], cwd=folder, **variables, **more)

    return start


def test_commands_work_from_an_empty_folder(python: Path, empty: Path, tmp_path: Path) -> None:
    first_steps.look_around(starting(python, empty))
    giveway = python.with_name("giveway")
    unbuilt = done(giveway, "doctor", cwd=empty, GIVEWAY_CACHE=str(tmp_path / "cache"))
    assert "giveway build-kernel" in unbuilt.stdout
    assert "make virtual" not in unbuilt.stdout
    refused = done(giveway, "run", "quickstrat", "--engine", "fluid", cwd=empty)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert list(empty.iterdir()) == []


@pytest.mark.slow  # its simulator is compiled anew
@pytest.mark.timeout(600)
def test_it_simulates_from_an_empty_folder(python: Path, empty: Path, tmp_path: Path) -> None:
    simulates(python, empty, tmp_path / "cache")


@pytest.mark.slow
@pytest.mark.python313
@pytest.mark.timeout(900)
def test_it_installs_and_simulates_with_python_3_13(
    wheel: Path, empty: Path, tmp_path: Path
) -> None:
    """With what pip finds newest today, not with what is pinned."""
    place = tmp_path / "environment"
    assert done(str(PYTHON_313), "-m", "venv", place, cwd=empty).returncode == 0
    put = done(place / "bin" / "pip", "install", "-q", wheel, cwd=empty)
    assert put.returncode == 0, put.stderr
    python = place / "bin" / "python"
    first_steps.look_around(starting(python, empty))
    simulates(python, empty, tmp_path / "cache")


def simulates(python: Path, empty: Path, cache: Path) -> None:
    found = first_steps.simulate(starting(python, empty, GIVEWAY_CACHE=str(cache)))
    assert (empty / "first" / "report.html").is_file()
    words = [*first_steps.QUICKSTART, str(empty / "here")]
    here = done(sys.executable, "-m", "testbed", *words, cwd=REPOSITORY)
    assert found == first_steps.digest(here.stdout)
