"""A folder of runs is opened only if every run in it can be trusted to be whole."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis import folder
from basics import digests
from basics.errors import BadInput, GivewayError, RunFailed
from tests import run_folders
from tests.conftest import giveway


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


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "not parquet": lambda path: path.write_bytes(b"nonsense"),
    "another table": lambda path: shutil.copy(path.with_name("hosts.parquet"), path),
    "one byte": lambda path: path.write_bytes(flipped(path.read_bytes())),
}


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("table", ["flows", "links"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named(out: Path, damage: str, table: str) -> None:
    DAMAGES[damage](out / f"fifo/seed-0/{table}.parquet")
    with pytest.raises(RunFailed, match=rf"fifo/seed-0: {table}\.parquet is "):
        folder.load(out)


def swap(one: Path, two: Path) -> None:
    aside = one.with_name("aside")
    for source, target in ((one, aside), (two, one), (aside, two)):
        source.rename(target)


@pytest.mark.parametrize("old", [False, True], ids=["with digests of files", "from before those"])
def test_flows_of_another_run_are_not_believed(out: Path, old: bool) -> None:
    if old:
        for path in out.glob("*/*/manifest.json"):
            content = json.loads(path.read_text())
            del content[digests.TABLE_DIGESTS]
            path.write_text(json.dumps(content))
        folder.load(out)
    swap(out / "fifo/seed-0/flows.parquet", out / "strict-priority/seed-0/flows.parquet")
    with pytest.raises(RunFailed, match=r"fifo/seed-0: flows\.parquet .*not what was sealed"):
        folder.load(out)


def test_a_run_in_the_place_of_another_is_not_believed(out: Path) -> None:
    swap(out / "fifo/seed-0", out / "strict-priority/seed-0")
    with pytest.raises(RunFailed, match=r"fifo/seed-0/manifest\.json: is of another run"):
        folder.load(out)


@pytest.mark.parametrize("left", [None, {}, "x", ["flows"], {"hosts": "0"}])
def test_records_without_a_digest_are_not_believed(out: Path, left: object) -> None:
    path = out / "fifo/seed-0/manifest.json"
    content = json.loads(path.read_text())
    del content["digest"], content[digests.TABLE_DIGESTS]
    path.write_text(json.dumps(content if left is None else {**content, "table_digests": left}))
    with pytest.raises(RunFailed, match="fifo/seed-0: "):
        folder.load(out)


@pytest.mark.parametrize("command", ["report", "agree"])
def test_the_command_line_refuses_changed_records(out: Path, tmp_path: Path, command: str) -> None:
    good = tmp_path / "good"
    shutil.copytree(out, good)
    swap(out / "fifo/seed-0/flows.parquet", out / "strict-priority/seed-0/flows.parquet")
    done = giveway(command, out) if command == "report" else giveway(command, good, out)
    assert done.returncode == 4
    assert done.stderr.startswith("giveway: ")
    assert "not what was sealed" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (out / "report.html").exists()
