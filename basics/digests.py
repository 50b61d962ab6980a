"""What a run's records were when it was sealed, and whether they still are.

A manifest has two kinds of digest. `digest` is of what happened (the rows of flows and iterations):
two runs that agree in it played the same. `table_digests` are of the files, every one: a changed
byte anywhere shows, for the price of reading it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from basics.files import digest_of

DIGESTED = ("flows", "iterations")
DIGESTED_IF_THERE = ("stretches",)
TABLE_DIGESTS = "table_digests"


def table_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.parquet"


def of_records(records: Mapping[str, Sequence[Sequence[Any]]]) -> str:
    """Of what happened to flows and iterations, and to tasks of a cluster; every time included."""
    told = [records.get(name, []) for name in DIGESTED]
    told += [records[name] for name in DIGESTED_IF_THERE if records.get(name)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def damage(folder: Path, manifest: Mapping[str, Any]) -> str | None:
    """What of a run's tables is not what its manifest says; None if all of it is."""
    if TABLE_DIGESTS in manifest:
        return _changed_file(folder, manifest[TABLE_DIGESTS])
    try:  # sealed before files had digests
        rows = {name: rows_of(table_file(folder, name)) for name in DIGESTED}
    except (OSError, ValueError, pa.ArrowException) as problem:
        return f"its records cannot be read ({problem})"
    if of_records(rows) != manifest.get("digest"):
        return f"{' or '.join(f'{name}.parquet' for name in DIGESTED)} is not what was sealed"
    return None


def _changed_file(folder: Path, digests: Any) -> str | None:
    if not isinstance(digests, dict) or not digests.keys() >= set(DIGESTED):
        return f"the {TABLE_DIGESTS} of its manifest are damaged"
    for name, sealed in digests.items():
        path = table_file(folder, name)
        try:
            same = digest_of(path) == sealed
        except FileNotFoundError:
            return f"{path.name} is missing"
        except OSError as problem:
            return f"{path.name} cannot be read ({problem.strerror})"
        if not same:
            return f"{path.name} is not what was sealed"
    return None


def rows_of(path: Path) -> list[list[Any]]:
    """The rows of a table, as they were when its digest was taken."""
    columns = pq.ParquetFile(path).read().to_pydict().values()
    return [list(row) for row in zip(*columns, strict=True)]
