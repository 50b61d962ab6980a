"""docs/ci.md: its workflow is run step by step, and what it says of the document is there."""

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import yaml

from tests.conftest import REPOSITORY, giveway

PAGE = REPOSITORY / "docs" / "ci.md"


def steps() -> list[str]:
    block = re.findall(r"```yml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    jobs = yaml.safe_load(block)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_every_step_of_the_workflow_runs(tmp_path: Path) -> None:
    set_up, *others = steps()
    assert set_up == "make setup"  # done: these tests run in what it made
    for name in (".venv", "experiments"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    said = ""
    for step in others:
        done = subprocess.run(
            ["bash", "-ec", step], cwd=tmp_path, capture_output=True, text=True, timeout=200,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said = done.stdout
    document = json.loads((tmp_path / "runs-ci.json").read_text())
    assert float(said) == document["claims"][0]["measured"] < 0
    assert document["exit_code"] == 0
    cases = ElementTree.parse(tmp_path / "runs-ci.xml").getroot().attrib
    assert (cases["tests"], cases["failures"]) == ("3", "0")
    named = set(re.findall(r"`(\w+)`", PAGE.read_text().partition("A sweep's document")[0]))
    assert document.keys() <= named

    again = giveway(
        "report", tmp_path / "runs/ci", "--json", "--junit", tmp_path / "again.xml", wait=False
    )
    keys = ("digest", "claims", "metrics", "exit_code")
    assert [json.loads(again.stdout)[key] for key in keys] == [document[key] for key in keys]
