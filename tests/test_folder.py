"""The run folder is whole or does not say so."""

import json
from pathlib import Path

import pandas as pd
import pytest

from basics.errors import BadInput, RunFailed
from basics.files import write_whole
from basics.records import TABLES
from testbed.run_folder import RunFolder, create
from testbed.sealing import seal
from workloads.journal import Journal


def test_journals_become_tables_and_finished_comes_last(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with Journal(folder.journals / "b.jsonl") as journal:
        journal.write("iterations", "job", 1, 0, 0, 10, 7, 3)
    with Journal(folder.journals / "a.jsonl") as journal:
        journal.write("iterations", "job", 0, 0, 0, 11, 7, 4)
    rows = folder.read_journals()
    seal(folder, rows, {"seed": 0})
    table = pd.read_parquet(folder.path / "iterations.parquet")
    assert table.worker.tolist() == [0, 1]
    assert table.wait_ns.tolist() == [4, 3]
    assert json.loads((folder.path / "manifest.json").read_text())["status"] == "finished"
    assert {path.name for path in folder.path.iterdir()} == {
        "manifest.json",
        "logs",
        *(f"{name}.parquet" for name in TABLES),
    }


def test_a_table_that_cannot_be_written_leaves_the_run_unfinished(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    (folder.path / "flows.parquet").mkdir()  # in the way of the rename
    (folder.path / "flows.parquet" / "x").touch()
    with pytest.raises(RunFailed, match=r"cannot write .*flows.parquet"):
        seal(folder, {}, {})
    assert not (folder.path / "manifest.json").exists()


def test_a_failed_run_says_so(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.fail({"seed": 1}, "the reason")
    found = json.loads((folder.path / "manifest.json").read_text())
    assert (found["status"], found["error"]) == ("failed", "the reason")


def test_results_are_never_mixed_with_something_else(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(BadInput, match="not empty"):
        create(tmp_path)
    create(tmp_path / "new")
    assert (tmp_path / "new").is_dir()


def test_a_file_is_whole_or_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "one")
    write_whole(path, "two")
    assert path.read_text() == "two"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot write"):
        write_whole(tmp_path / "no" / "such" / "folder", "text")
