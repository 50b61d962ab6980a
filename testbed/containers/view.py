"""A container as a place for tasks: its line, its files and its processes, as seen from outside."""

import os
import socket
from pathlib import Path

from basics.lines import Lines


class Room:
    """Another nursery's line, from inside a container: its tasks are forked there.

    The interpreter at the other end is the container's own, and so are its processors, memory and
    files; `folders` says where it sees those of the run.
    """

    def __init__(self, name: str, line: socket.socket, pid: int, folders: dict[Path, str]) -> None:
        self.name = name
        self.line = line
        self.lines = Lines()
        self._pid = pid  # of the container's first process, as this machine sees it
        self._folders = folders

    def inside(self, path: Path) -> str:
        """A file of the run as the container sees it."""
        return f"{self._folders[path.parent]}/{path.name}"

    def pid_outside(self, pid: int) -> int | None:
        """A process of the container as this machine sees it."""
        namespace = os.readlink(f"/proc/{self._pid}/ns/pid")
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and os.readlink(folder / "ns/pid") == namespace:
                    status = (folder / "status").read_text()
                    inner = status.partition("NSpid:")[2].partition("\n")[0].split()[-1]
                    if int(inner) == pid:
                        return int(folder.name)
            except OSError:
                continue
        return None
