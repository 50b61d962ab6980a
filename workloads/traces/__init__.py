"""Traces of clusters: a format is one file here that ends with `FORMAT = TraceFormat(...)`.

Reading gives busy jobs in the order of their arrival, the first of them at time zero. Writing is
the inverse as far as the format goes: what ships and what tests read is drawn by our own generator.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from basics.errors import BadInput
from workloads.busy_job import BusyJob, in_order
from workloads.traces.format import TraceFormat

__all__ = ["TraceFormat", "formats", "read"]


@cache
def formats() -> dict[str, TraceFormat]:
    found: dict[str, TraceFormat] = {}
    for module in pkgutil.iter_modules(__path__):
        loaded = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if loaded is not None:
            found[loaded.name] = loaded
    return dict(sorted(found.items()))


def read(path: Path, format_: str, most: int | None = None) -> list[BusyJob]:
    """The jobs of a trace (the first so many), its first arrival at time zero."""
    jobs = in_order(formats()[format_].read(path))[:most]
    if not jobs:
        raise BadInput(f"{path}: no job in this trace")
    first_ns = jobs[0].submitted_ns
    return [job.earlier(first_ns) for job in jobs]
