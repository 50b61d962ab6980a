"""What a format of traces is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.busy_job import BusyJob


@dataclass(frozen=True)
class TraceFormat:
    name: str
    source: str
    read: Callable[[Path], list[BusyJob]]  # raises BadInput: file, row, column, what was found
    write: Callable[[Sequence[BusyJob]], str]
