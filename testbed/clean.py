"""Removes what dead runs have left, and nothing else.

Everything of a run lives in processes that carry its id, and the namespaces, bridges and cables
go with the processes. So cleaning means: end the processes whose controller is gone.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.processes import CONTROLLER_VARIABLE, RUN_VARIABLE, start_time


@dataclass(frozen=True)
class Leftover:
    pid: int
    run_id: str
    command: str


def leftovers() -> Iterator[Leftover]:
    """Processes of runs whose controller is no longer there."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = dict(
                entry.split("=", 1)
                for entry in (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                if "=" in entry
            )
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        except OSError:
            continue
        run_id, controller = variables.get(RUN_VARIABLE), variables.get(CONTROLLER_VARIABLE)
        if run_id and controller and not _alive(controller):
            yield Leftover(int(folder.name), run_id, command)


def _alive(controller: str) -> bool:
    pid, _, started = controller.partition(":")
    return str(start_time(int(pid))) == started


def clean() -> list[Leftover]:
    """End every leftover; returns what was ended."""
    ended = []
    for leftover in leftovers():
        try:
            os.kill(leftover.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        ended.append(leftover)
    return ended
