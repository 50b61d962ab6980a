"""The run folder: JSON lines while running, Parquet at the end, `finished` last of all.

A table is written under another name and renamed; the manifest that says `finished` comes after
every table. So a folder that says so is whole, whatever happened to the machine.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from testbed.errors import BadInput, RunFailed
from testbed.records import SCHEMA_VERSION, TABLES

Row = list[Any]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into a message that says where."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunFailed(f"the disk is full: cannot write {path}; free some space") from error
        raise RunFailed(f"cannot write {path}: {error.strerror or error}") from error


def write_atomically(path: Path, text: str) -> None:
    with writing(path):
        half = path.with_name(path.name + ".half")
        with half.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        half.rename(path)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def create(out: Path) -> None:
    """Make the folder of an experiment; refuse to mix results with something else."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} already exists and is not empty: choose another --out")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)


class RunFolder:
    """One policy and seed: OUT/POLICY/seed-N."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journals = path / "journals"
        self.logs = path / "logs"
        with writing(path):
            self.journals.mkdir(parents=True)
            self.logs.mkdir()

    def seal(self, tables: Mapping[str, list[Row]], manifest: Mapping[str, Any]) -> None:
        """Write every table, then the manifest that says `finished`, then drop the journals."""
        for name, schema in TABLES.items():
            self._write_table(name, schema, tables.get(name, []))
        write_json(
            self.path / "manifest.json",
            {"schema_version": SCHEMA_VERSION, "status": "finished", **manifest},
        )
        for journal in self.journals.iterdir():
            journal.unlink()
        self.journals.rmdir()

    def fail(self, manifest: Mapping[str, Any], why: str) -> None:
        """Leave a note of what went wrong, if the disk still takes one."""
        try:
            write_json(
                self.path / "manifest.json",
                {"schema_version": SCHEMA_VERSION, "status": "failed", "error": why, **manifest},
            )
        except RunFailed:
            return

    def _write_table(self, name: str, schema: pa.Schema, rows: list[Row]) -> None:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        table = pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
            schema=schema,
        )
        path = self.path / f"{name}.parquet"
        with writing(path):
            half = path.with_name(path.name + ".half")
            pq.write_table(table, half)
            half.rename(path)

    def read_journals(self) -> dict[str, list[Row]]:
        """Every line of every journal, by table; files in the order of their names."""
        found: dict[str, list[Row]] = defaultdict(list)
        for path in sorted(self.journals.glob("*.jsonl")):
            with path.open() as lines:
                for line in lines:
                    table, *values = json.loads(line)
                    found[table].append(values)
        return found
