"""Records as a task writes them while it runs: JSON lines, sealed as Parquet by the engine later.

Each line is [table, value, value, ...] with the values in the order of the table's schema, or
only as many as this task knows.
"""

import json
from pathlib import Path
from typing import Self

# Made once: `json.dumps` with separators makes one a line, which takes longer than the line.
encoded = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1 << 18)

    def write(self, table: str, *values: str | float | None) -> None:
        self._file.write(encoded([table, *values]) + "\n")

    def flush(self) -> None:
        """What was written is there, even if this task is killed."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
