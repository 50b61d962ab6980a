"""The README shows what the virtual engine prints, to the letter."""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, giveway

BLOCK = re.compile(r"<!-- quickstart: .*?-->\n```\n(.*?)```\n<!-- /quickstart -->", re.DOTALL)


def shown(output: str) -> str:
    """The part of the command's output that the README quotes: table, answer, digest."""
    lines = output.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("quickstart")))
    kept = [line.rstrip() for line in lines[first:] if not line.startswith("report:")]
    return "\n".join(kept) + "\n"


@pytest.mark.virtual
@pytest.mark.timeout(600)
def test_the_readme_shows_what_the_quickstart_prints(tmp_path: Path) -> None:
    run = ("run", "experiments/quickstart.yaml", "--engine", "virtual", "--out", tmp_path / "out")
    done = giveway(*run, limit_s=500)
    assert done.returncode == 0, done.stderr
    quoted = BLOCK.search((REPOSITORY / "README.md").read_text())
    assert quoted is not None
    assert quoted[1] == shown(done.stdout)
