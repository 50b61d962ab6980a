"""A folder of runs is opened only if every run in it can be trusted to be whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import folder
from testbed.errors import BadInput, GivewayError
from tests import run_folders


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return run_folders.write(tmp_path / "out", run_folders.Folder(seeds=(0, 4), flows=20))


def test_every_policy_and_seed_is_found(out: Path) -> None:
    results = folder.load(out)
    assert set(results.runs) == {
        (label, seed) for label in ("fifo", "strict-priority") for seed in (0, 4)
    }
    assert [run.seed for run in results.of("fifo")] == [0, 4]
    assert results.plan.first.title == "FIFO"
    assert len(results.runs["fifo", 4].table("flows")) == 20


def test_tables_are_read_once(out: Path) -> None:
    run = folder.load(out).runs["fifo", 0]
    assert run.table("links") is run.table("links")


def test_a_folder_that_is_none_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no plan\.json") as caught:
        folder.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_run_without_manifest_is_refused_by_name(out: Path) -> None:
    (out / "fifo/seed-4/manifest.json").unlink()
    with pytest.raises(GivewayError, match="fifo/seed-4: this run never finished"):
        folder.load(out)


def test_an_unfinished_run_is_refused_with_its_status(out: Path) -> None:
    change_json(out / "strict-priority/seed-0/manifest.json", status="running")
    with pytest.raises(GivewayError, match=r"strict-priority/seed-0.*status: running"):
        folder.load(out)


@pytest.mark.parametrize("where", ["plan.json", "fifo/seed-0/manifest.json"])
def test_another_schema_version_is_refused(out: Path, where: str) -> None:
    change_json(out / where, schema_version=99)
    with pytest.raises(BadInput, match="schema version 99"):
        folder.load(out)


@pytest.mark.parametrize("where", ["plan.json", "fifo/seed-0/manifest.json"])
@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_file_is_named(out: Path, where: str, text: str) -> None:
    (out / where).write_text(text)
    with pytest.raises(GivewayError, match=where):
        folder.load(out)


def test_a_plan_that_lacks_a_key_is_named(out: Path) -> None:
    plan = json.loads((out / "plan.json").read_text())
    del plan["window_ns"]
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(BadInput, match="window_ns"):
        folder.load(out)


def test_a_run_nobody_judged_is_refused(out: Path) -> None:
    change_json(out / "fifo/seed-0/manifest.json", fidelity={"verdict": "fine"})
    known = "faithful, simulated, doubtful, broken"
    with pytest.raises(GivewayError, match=f"'fine' is none of {known}"):
        folder.load(out)


@pytest.mark.parametrize("damage", ["missing", "not parquet", "other columns"])
def test_a_damaged_table_is_named(out: Path, damage: str) -> None:
    path = out / "fifo/seed-0/flows.parquet"
    if damage == "missing":
        path.unlink()
    elif damage == "not parquet":
        path.write_bytes(b"nonsense")
    else:
        path.write_bytes((out / "fifo/seed-0/hosts.parquet").read_bytes())
    run = folder.load(out).runs["fifo", 0]
    with pytest.raises(GivewayError, match=r"fifo/seed-0/flows\.parquet"):
        run.table("flows")
