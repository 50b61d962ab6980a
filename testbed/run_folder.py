"""The run folder while a run goes on: where tasks write their journals and logs.

testbed/sealing.py turns it into the folder that analysis reads.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from basics.errors import BadInput, RunFailed
from basics.files import write_json, writing

Row = Sequence[Any]
UNDONE = "undone"  # no table of its own: (job, iteration, when), see sealing.py


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
            self.journals.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)

    def fail(self, manifest: Mapping[str, Any], why: str) -> None:
        """Leave a note of what went wrong, if the disk still takes one."""
        try:
            write_json(self.path / "manifest.json", {"status": "failed", "error": why, **manifest})
        except RunFailed:
            return

    def read_journals(self) -> dict[str, list[Row]]:
        """Every line of every journal, by table; files in the order of their names."""
        found: dict[str, list[Row]] = defaultdict(list)
        for path in sorted(self.journals.glob("*.jsonl")):
            with path.open() as lines:
                for line in lines:
                    if not line.endswith("\n"):  # its task was killed while it wrote that
                        break
                    table, *values = json.loads(line)
                    found[table].append(values)
        return found
