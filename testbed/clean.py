"""Removes what dead runs have left, and nothing else.

Everything of a run lives in processes that carry its id, and the namespaces, bridges and cables
go with the processes. So cleaning means: end the processes whose controller is gone, and remove
the containers that carry the label of such a run. A run of another pid namespace (a container, a CI
job) cannot be looked up from here, and is left to whoever cleans there.
"""

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.containers import docker_engine
from testbed.processes import (
    CONTROLLER_VARIABLE,
    NAMESPACE_VARIABLE,
    RUN_VARIABLE,
    is_gone,
    own_mark,
)

# Where runs with containers keep the sockets of those: a folder each, RUN:MARK.
SOCKETS = Path("/run/giveway-sockets")
# Where guests live: folders of temporary files, each with the run and its mark in its name.
LODGING = "giveway-boot-"
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Leftover:
    pid: int | None  # None: a container, a folder
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
        run_id = variables.get(RUN_VARIABLE)
        mark = f"{variables.get(CONTROLLER_VARIABLE)}:{variables.get(NAMESPACE_VARIABLE)}"
        if run_id and is_gone(mark):
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
    return ended + clean_lodgings() + clean_containers()


def lodging_prefix(run_id: str) -> str:
    return f"{LODGING}{run_id}.{own_mark().replace(':', '.')}-"


def clean_lodgings() -> list[Leftover]:
    """Remove the folders of guests whose controller was killed with them."""
    removed = []
    for folder in lodgings():
        name, _, _ = folder.name.removeprefix(LODGING).rpartition("-")
        run_id, _, mark = name.partition(".")
        if is_gone(mark.replace(".", ":")):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(Leftover(None, run_id, f"folder {folder}"))
    return removed


def lodgings() -> Iterator[Path]:
    """Folders of guests that belong to this user."""
    parents = {SHARED_MEMORY}
    with suppress(FileNotFoundError):  # no place for temporary files
        parents.add(Path(tempfile.gettempdir()))
    for parent in parents:
        for folder in parent.glob(f"{LODGING}*"):
            with suppress(OSError):
                status = folder.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    yield folder


def clean_containers() -> list[Leftover]:
    """Remove the containers and sockets of runs whose controller is gone."""
    orphans = docker_engine.orphans()
    docker_engine.remove(orphans)
    for folder in SOCKETS.iterdir() if SOCKETS.is_dir() else ():
        _, _, controller = folder.name.partition(":")
        if is_gone(controller):
            shutil.rmtree(folder, ignore_errors=True)
    return [Leftover(None, run_id, f"container {name}") for name, run_id in orphans.values()]
