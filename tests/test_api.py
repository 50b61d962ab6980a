"""Giveway from Python: small runs, their tables, and the notebook."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

import giveway
from analysis.folder import load
from basics.records import TABLES
from tests.conftest import REPOSITORY
from tests.run_folders import Folder, write

NOTEBOOK = REPOSITORY / "docs" / "api.ipynb"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, small_experiment: Path) -> giveway.LoadedFolder:
    asked = giveway.experiment(small_experiment)
    del asked["training"][0]["check"]  # not simulated
    asked["policies"] = [
        "fifo",
        giveway.policy("htb-priority", label="mine", high=0.6, middle=0.1, low=0.3),
    ]
    asked["claims"] = [{"metric": "flows.all.fct_mean", "of": "fifo", "value": "at most 1 us"}]
    out = tmp_path_factory.mktemp("runs") / "api"
    return giveway.run(asked, engine="fluid", out=out, settings={"duration": "800 ms"})


def test_a_mapping_runs_and_its_tables_are_the_records(ran: giveway.LoadedFolder) -> None:
    assert (ran.policies, ran.seeds) == (["fifo", "mine"], [0])
    results = load(ran.folder)
    for name in TABLES:
        table = ran.table(name)
        assert list(table.columns[:2]) == ["policy", "seed"]
        mine = table[table.policy == "mine"].drop(columns=["policy", "seed"])
        assert mine.reset_index(drop=True).equals(results.runs["mine", 0].table(name))
    assert len(ran.flows) == 2 * ran.flows.flow.nunique() > 20
    assert ran.plan["duration_ns"] == 800_000_000
    assert ran.report.is_file()


def test_a_claim_that_fails_is_a_result(ran: giveway.LoadedFolder) -> None:
    [claim] = ran.claims
    assert claim["holds"] is False
    assert giveway.load(ran.folder).digest == ran.digest


def test_metrics_are_those_of_the_summary(ran: giveway.LoadedFolder) -> None:
    metrics = ran.metrics.set_index(["policy", "metric"]).value
    for policy in ran.policies:
        told = ran.summary["policies"][policy]["flows"]["all"]["fct_mean_ns"]
        assert metrics[policy, "flows.all.fct_mean"] == told


def test_what_the_command_refuses_is_raised_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(giveway.CommandFailed, match=r"policies\.0.*fifo") as caught:
        giveway.run({**giveway.experiment("quickstart"), "policies": ["fif"]}, engine="fluid")
    assert caught.value.exit_code == 2
    with pytest.raises(giveway.CommandFailed, match="no such file"):
        giveway.experiment("quickstrat")
    with pytest.raises(giveway.CommandFailed, match=r"plan\.json"):
        giveway.load(tmp_path)
    unfinished = write(tmp_path / "out", Folder(seeds=(0,), flows=20))
    with pytest.raises(giveway.CommandFailed, match="not finished"):
        giveway.load(unfinished)
    with pytest.raises(giveway.CommandFailed, match=r"known: .*flows"):
        giveway.LoadedFolder(unfinished).table("flow")


def test_files_beside_an_experiment_are_found_from_anywhere() -> None:
    [mix] = giveway.experiment("replay")["flows"]
    assert Path(mix["schedule"]).is_absolute()
    assert Path(mix["schedule"]).is_file()


def test_a_policy_is_an_entry_of_the_file() -> None:
    assert yaml.safe_dump(giveway.policy("fifo")) == "policy: fifo\n"
    assert giveway.policy("p", label="l", high=1) == {"policy": "p", "label": "l", "high": 1}


def test_it_brings_nothing_else_of_ours_and_no_large_library(tmp_path: Path) -> None:
    code = "import sys, giveway; print(*{name.partition('.')[0] for name in sys.modules})"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"analysis", "basics", "policies", "testbed", "workloads", "topologies"} & set(told)
    assert not {"pandas", "numpy", "yaml"} & set(told)


def test_the_page_names_everything_there_is() -> None:
    page = (REPOSITORY / "docs" / "api.md").read_text()
    assert [name for name in giveway.__all__ if f"`giveway.{name}" not in page] == []
    public = [name for name in vars(giveway.LoadedFolder) if not name.startswith("_")]
    assert [name for name in public if f"`{name}" not in page] == []
    assert [name for name in TABLES if f"`{name}`" not in page] == []


@pytest.mark.timeout(400)
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # numbers are made, not kept
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "runs" / "notebook" / "report.html").is_file()


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "api.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "In simulation" in done.stdout
