"""Every command of the labs runs, and says what the page says that it says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.spec import load
from tests.conftest import REPOSITORY

LABS = REPOSITORY / "labs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$|^> ([^\n]*)$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`(policies/\w+\.py)`|<code>(policies/\w+\.py)</code>")


@dataclass
class Exercise:
    """A command of a page, the line that it is to print, and the files that are there by then."""

    page: str
    number: int
    command: str
    files: dict[str, str]
    answer: str | None = None

    @property
    def marked(self) -> Any:
        marks = [pytest.mark.virtual] if "--engine virtual" in self.command else []
        return pytest.param(self, marks=marks, id=f"{self.page}-{self.number}")


def exercises(page: Path) -> list[Exercise]:
    found: list[Exercise] = []
    files: dict[str, str] = {}
    text = page.read_text()
    for block in FENCE.finditer(text):
        language, code, quoted = block.groups()
        if quoted is not None:
            found[-1].answer = quoted
        elif language == "python":
            named = [one or other for one, other in FILE.findall(text[: block.start()])]
            files[named[-1]] = code
        else:
            for line in code.splitlines():
                found.append(Exercise(page.stem, len(found) + 1, line, dict(files)))
    return found


ALL = [one for page in sorted(LABS.glob("[0-9]*.md")) for one in exercises(page)]


def test_the_pages_have_exercises() -> None:
    assert {one.page for one in ALL} == {page.stem for page in LABS.glob("[0-9]*.md")}
    assert sum(one.answer is not None for one in ALL) >= 10


def test_the_rack_is_that_of_the_quickstart() -> None:
    rack = load(LABS / "rack.yaml", ("topology.delay=about 10 us",))
    known = load(REPOSITORY / "experiments" / "quickstart.yaml")
    besides = {"name": "", "question": "", "claims": ()}
    assert rack.model_copy(update=besides) == known.model_copy(update=besides)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's own, in which policies can be added; all else is ours."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(REPOSITORY / "policies", folder / "policies")
    (folder / "labs").symlink_to(LABS)
    return folder


@pytest.mark.timeout(600)
@pytest.mark.parametrize("exercise", [one.marked for one in ALL])
def test_a_command_says_what_the_page_says(exercise: Exercise, checkout: Path) -> None:
    for name, code in exercise.files.items():
        (checkout / name).write_text(code)
    program, *arguments = shlex.split(exercise.command)
    assert program == "giveway"
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *arguments],
        cwd=checkout, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if exercise.answer is not None:
        assert exercise.answer in done.stdout.splitlines()
