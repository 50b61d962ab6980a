"""Debian 13 (Python 3.13), a clean one in a folder: set-up, core of the tests, runs, the wheel."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import first_steps
from tests.clean_root import CLONE, clean_debian, inside
from tests.conftest import REPOSITORY
from tests.first_steps import said

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1500)]

# Pure and fast, and from every folder: what another Python could break.
CORE = (
    "units", "options", "spec", "topologies", "policies", "disciplines", "tc_golden", "schedule",
    "sizes", "profiles", "collectives", "transfer", "loop", "fluid_rates", "analysis_stats",
    "folder",
)  # fmt: skip
SHORT = ("duration=1500 ms", "warmup=500 ms", "cooldown=0 s", "claims=[]")


@pytest.fixture(scope="module")
def debian13(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root, set up as a new machine is."""
    with clean_debian("trixie", tmp_path_factory.mktemp("root")) as root:
        told = said(inside(root, "scripts/provision.sh", CLONE, "setup"))
        assert "quickstart.yaml" in told
        yield root


def test_it_has_python_3_13_and_can_simulate_and_emulate(debian13: Path) -> None:
    assert said(inside(debian13, ".venv/bin/python", "--version")).startswith("Python 3.13.")
    told = said(inside(debian13, "giveway", "doctor"))
    for engine in ("fluid", "realtime"):
        assert re.search(rf"^{engine} +yes ", told, re.MULTILINE), told


def test_the_core_of_the_tests_passes(debian13: Path) -> None:
    files = [f"tests/test_{name}.py" for name in CORE]
    done = inside(debian13, ".venv/bin/pytest", "-q", "--numprocesses=2", *files)
    assert " passed" in said(done)


def test_the_readmes_simulation_has_the_same_digest_as_here(debian13: Path) -> None:
    words = ["run", "experiments/quickstart.yaml", "--engine", "fluid", "--out"]
    there = said(inside(debian13, "giveway", *words, "/tmp/first"))
    here = subprocess.run(
        [sys.executable, "-m", "testbed", *words, str(debian13 / "tmp" / "here")],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert first_steps.digest(there) == first_steps.digest(here.stdout)


def test_the_demo_runs_on_debians_own_mininet(debian13: Path) -> None:
    """`make demo`, shorter: one seed of it, and no claim, which a short run cannot keep."""
    [command] = [
        line.removeprefix(".venv/bin/giveway ").split()
        for line in said(inside(debian13, "make", "--dry-run", "demo")).splitlines()
        if line.startswith(".venv/bin/giveway ")
    ]
    shorter = [word for setting in SHORT for word in ("--set", setting)]
    told = said(inside(debian13, "giveway", *command, "--wait", "--seed", "0", *shorter))
    assert "Under Strict priority instead of FIFO" in told


def test_the_wheel_works_from_an_empty_folder(debian13: Path) -> None:
    """Its dependencies are borrowed from the clone; that pip gets them is test_install's."""
    env, empty = "/tmp/environment", "/tmp/empty"
    (debian13 / empty[1:]).mkdir()
    wheel = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "/tmp/wheel", ".")
    said(inside(debian13, ".venv/bin/pip", *wheel))
    [built] = (debian13 / "tmp" / "wheel").glob("*.whl")
    said(inside(debian13, "python3", "-m", "venv", "--without-pip", env))
    put = ("--python", f"{env}/bin/python", "install", "-q", "--no-deps", "--no-index")
    said(inside(debian13, ".venv/bin/pip", *put, f"/tmp/wheel/{built.name}"))
    [packages] = (debian13 / env[1:]).glob("lib/python*/site-packages")
    theirs = f"{CLONE}/.venv/lib/{packages.parent.name}/site-packages"
    (packages / "borrowed.pth").write_text(theirs + "\n")

    def start(words: Sequence[str], variables: dict[str, str]) -> first_steps.Done:
        program = f"{env}/bin/{words[0]}"
        return inside(debian13, program, *words[1:], folder=empty, **variables)

    first_steps.look_around(start)
    found = first_steps.simulate(start)
    again = said(inside(debian13, "giveway", *first_steps.QUICKSTART, "/tmp/again"))
    assert found == first_steps.digest(again)
