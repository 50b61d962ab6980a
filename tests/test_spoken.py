"""What a command says at its end: every claim to people, JSON and JUnit's XML to programs."""

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner, Result

from analysis import folder, sweep
from analysis.machines import CiCase, junit
from analysis.summary import summarise
from analysis.tables import for_terminal
from analysis.words import SPACE
from basics.errors import BadInput
from testbed.cli.commands import app
from testbed.cli.on import understood
from tests import run_folders
from tests.run_folders import Effect, Folder
from tests.test_architecture import sources

TABLES_OF_RICH = "rich.table"  # cut what does not fit
FEW = {"seeds": (0,), "flows": 120}
CANNOT = run_folders.claim(value=-0.99, text="change: at most -99 %")
CAN = run_folders.claim(value=-0.10)
SURE = run_folders.claim(value=9.0)
NOBODY = run_folders.claim(of="htb-priority")


def reported(out: Path, *options: str, **what: object) -> Result:
    run_folders.write(out, Folder(**(FEW | what)))  # type: ignore[arg-type]
    return CliRunner().invoke(app, ["report", str(out), *options])


def plain(text: str) -> str:
    return text.replace(SPACE, " ")


def test_every_claim_is_spoken_with_what_was_asked_and_measured(tmp_path: Path) -> None:
    done = reported(tmp_path / "out", claims=(CANNOT, CAN, NOBODY))
    assert done.exit_code == 1
    said = [line for line in plain(done.stdout).splitlines() if line.startswith("claim ")]
    of = "flows.small.fct_mean of Strict priority against FIFO"
    assert said[0].startswith(f"claim fails: {of}: asked at most −99 %; measured −4")
    assert "95 % interval" in said[0]
    assert said[1].startswith(f"claim holds: {of}: asked at most −10 %; measured −4")
    assert said[2].endswith("not measured: policy htb-priority was not run")
    assert done.stderr == "giveway: claims that fail: 2 of 3\n"


def test_a_claim_at_the_bound_is_within_noise(tmp_path: Path) -> None:
    first = reported(tmp_path / "a", "--json", claims=(CAN,))
    found = json.loads(first.stdout)["claims"][0]["measured"]
    just = run_folders.claim(value=found + 1e-9)
    done = reported(tmp_path / "b", claims=(just,))
    assert done.exit_code == 0
    assert "claim holds, within noise: " in done.stdout


def test_json_is_all_of_standard_output(tmp_path: Path) -> None:
    done = reported(tmp_path / "out", "--json", claims=(CANNOT,), verdicts={"fifo": "doubtful"})
    found = json.loads(done.stdout)
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert found["exit_code"] == done.exit_code == 1
    assert found["folder"] == str(tmp_path / "out")
    assert found["digest"] == summary["digest"]
    assert len(found["digests"]["fifo"]["0"]) == 64
    assert found["claims"][0]["verdict"] == "fails"
    assert found["claims"][0]["interval_95"][0] < found["claims"][0]["measured"]
    assert found["fidelity"]["fifo"]["verdict"] == "doubtful"
    row = next(
        row
        for row in found["metrics"]
        if (row["policy"], row["metric"]) == ("strict-priority", "flows.small.fct_mean")
    )
    assert row["low"] < row["value"] < row["high"]
    assert row["change_low"] < row["change"] < row["change_high"] < 0
    assert "claim fails" in done.stderr  # people are told elsewhere


def test_junit_has_a_case_for_each_claim_and_each_run(tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    verdicts = {"fifo": "broken", "strict-priority": "doubtful"}
    reported(tmp_path / "out", "--junit", str(file), claims=(CANNOT, CAN), verdicts=verdicts)
    root = ElementTree.fromstring(file.read_text())
    assert root.attrib == {"name": "quickstart", "tests": "4", "failures": "2", "errors": "0"}
    failing, holding, broken, doubtful = root.iter("testcase")
    asked = "flows.small.fct_mean of Strict priority against FIFO: at most −99 %"
    assert plain(failing.attrib["name"]) == asked
    assert "measured −4" in failing.findall("failure")[0].attrib["message"]
    assert holding.find("failure") is None
    assert "61 %" in broken.findall("failure")[0].attrib["message"]
    assert doubtful.attrib["name"] == "strict-priority, seed 0"
    assert "doubtful: 1.2 %" in (doubtful.findtext("system-out") or "")


def test_a_run_that_fails_leaves_no_junit_of_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    file.write_text("green")
    run_folders.write(tmp_path / "out", Folder(**FEW))  # type: ignore[arg-type]
    (tmp_path / "out/fifo/seed-0/flows.parquet").write_bytes(b"")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out"), "--junit", str(file)])
    assert done.exit_code != 0
    root = ElementTree.fromstring(file.read_text())
    assert root.attrib["errors"] == "1"
    assert "flows" in root.findall(".//error")[0].attrib["message"]


@pytest.mark.parametrize("name", ["out/no/such.xml", "found.txt"])
def test_a_junit_file_that_cannot_be_is_refused_first(name: str, tmp_path: Path) -> None:
    done = reported(tmp_path / "out", "--junit", str(tmp_path / name))
    assert "--junit" in str(done.exception)
    assert not (tmp_path / "out/report.html").exists()


@settings(max_examples=60)
@given(st.text(), st.text())
def test_junit_can_be_read_whatever_a_name_has_in_it(name: str, failed: str) -> None:
    root = ElementTree.fromstring(junit(name, [CiCase(name, name, failed)]).encode())
    assert root.attrib["tests"] == "1"
    assert root.attrib["failures"] == str(int(bool(failed)))


def test_a_sweep_speaks_its_claims_and_names_the_points_where_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "RESAMPLES", 20)
    out = run_folders.write_sweep(tmp_path / "out")
    for plan in out.glob("points/*/plan.json"):
        plan.write_text(json.dumps(json.loads(plan.read_text()) | {"claims": [CANNOT, SURE]}))
    done = CliRunner().invoke(app, ["report", str(out), "--junit", str(tmp_path / "x.xml")])
    points = len(list(out.glob("points/*")))
    said = [line for line in plain(done.stdout).splitlines() if line.startswith("claim ")]
    assert said[0].startswith(f"claim fails at {points} of {points} points: flows.small.fct_mean")
    assert "measured −" in said[0]
    assert said[1].startswith("claim holds at all ")
    assert done.exit_code == 1
    root = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert root.attrib["failures"] == str(points)


@pytest.mark.parametrize("columns", [30, 80])
@pytest.mark.parametrize("job", ["a" * 50, "a-job-" * 8 + "b"])
def test_no_name_is_cut_in_a_table(job: str, columns: int, tmp_path: Path) -> None:
    effects = {"fifo": Effect(), "a-policy-" + 30 * "x": Effect()}
    out = run_folders.write(tmp_path / "out", Folder(jobs=(job,), effects=effects, **FEW))  # type: ignore[arg-type]
    found = summarise(folder.load(out), resamples=20)
    console = Console(width=columns, file=io.StringIO(), record=True)
    console.print(for_terminal(found))
    lines = console.export_text().splitlines()
    assert not any("…" in line for line in lines)
    first = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert job in first


def test_every_table_folds() -> None:
    users = [
        path
        for path in sources("analysis", "testbed", "bench")
        if TABLES_OF_RICH in path.read_text()
    ]
    assert users == []


def test_policies_of_one_title_are_told_apart(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(claims=(CAN,), **FEW))  # type: ignore[arg-type]
    plan = json.loads((out / "plan.json").read_text())
    for policy in plan["policies"]:
        policy["title"] = "Shares"
    (out / "plan.json").write_text(json.dumps(plan))
    done = CliRunner().invoke(app, ["report", str(out)])
    assert "Under strict-priority instead of fifo, " in done.stdout
    assert "flows.small.fct_mean of strict-priority against fifo: asked" in done.stdout


@pytest.mark.parametrize("option", [["--json"], ["--junit", "x.xml"]])
def test_another_machine_writes_nothing_for_programs_here(option: list[str]) -> None:
    with pytest.raises(BadInput, match="`giveway report runs/NAME`"):
        understood(app, ["run", "experiments/quickstart.yaml", *option])
