"""Removes what dead runs have left, and nothing else.

Everything of a run lives in processes that carry its id, and the namespaces, bridges and cables
go with the processes. So cleaning means: end the processes whose controller is gone, and remove
the containers that carry the label of such a run.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed import docker
from testbed.processes import CONTROLLER_VARIABLE, RUN_VARIABLE, is_alive

# Where runs with containers keep the sockets of those: a folder each, RUN:PID:START.
SOCKETS = Path("/run/giveway")


@dataclass(frozen=True)
class Leftover:
    pid: int | None  # None: a container
    run_id: str
    command: str

    def __str__(self) -> str:
        what = (
            f"removed {self.command}" if self.pid is None else f"ended {self.pid}: {self.command}"
        )
        return f"{what} (run {self.run_id})"


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
        if run_id and controller and not is_alive(controller):
            yield Leftover(int(folder.name), run_id, command)


def clean() -> list[Leftover]:
    """End every leftover; returns what was ended."""
    ended = []
    for leftover in leftovers():
        assert leftover.pid is not None  # kill(0) would be our own group
        try:
            os.kill(leftover.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        ended.append(leftover)
    return ended + clean_containers()


def clean_containers() -> list[Leftover]:
    """Remove the containers and sockets of runs whose controller is gone."""
    orphans = docker.orphans()
    docker.remove(orphans)
    for folder in SOCKETS.iterdir() if SOCKETS.is_dir() else ():
        _, _, controller = folder.name.partition(":")
        if not is_alive(controller):
            shutil.rmtree(folder, ignore_errors=True)
    return [Leftover(None, run_id, f"container {name}") for name, run_id in orphans.values()]
