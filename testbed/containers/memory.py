"""What a container's memory limit does to it: what the kernel has killed there, and reloaded."""

import resource
from pathlib import Path

from basics.errors import RunFailed
from testbed.spec.hosts import ContainerSpec

# A container in which libraries do not fit is not killed for long: the kernel drops their pages and
# reads them again, hundreds of MB a second, while next to nothing happens. Imports of torch, as
# measured: in 200 MB they end, having reloaded 2 times as much; in 150 MB not even after 33 times.
MOST_RELOADS = 10


class MemoryGroup:
    """The memory cgroup of a process, if it can be found."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._events = _events(pid, root)

    @property
    def kills(self) -> int:
        """How many of its processes the kernel has killed to keep within the limit."""
        return _count(self._events, "oom_kill")

    @property
    def reloaded_byte(self) -> int:
        """Of files: what it had read, had to drop, and read again."""
        stat = self._events.with_name("memory.stat") if self._events else None
        return _count(stat, "workingset_refault_file") * resource.getpagesize()


def _events(pid: int, root: Path) -> Path | None:
    """The file in which the kernel counts what it has killed in this process's cgroup."""
    try:
        lines = (root / f"proc/{pid}/cgroup").read_text().splitlines()
    except OSError:  # it has ended
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for base, name in (("memory", "memory.oom_control"), ("", "memory.events")):
            file = Path(root, "sys/fs/cgroup", base, path.lstrip("/"), name)
            if base in controllers.split(",") and file.exists():
                return file
    return None


def _count(file: Path | None, name: str) -> int:
    try:
        lines = file.read_text().splitlines() if file else []
    except OSError:  # gone with its container
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def out_of_memory(host: str, limits: ContainerSpec) -> str:
    return (
        f"a process in the container of {host} {_ran_out(limits)}: allow more, or train a smaller "
        "model"
    )


def demand_progress(host: str, group: MemoryGroup, limits: ContainerSpec) -> None:
    """Give up a container that does nothing any more but read the same pages again."""
    if limits.memory_byte and group.reloaded_byte > MOST_RELOADS * limits.memory_byte:
        raise RunFailed(
            f"the container of {host} {_ran_out(limits)}: what it has to load does not fit, and is "
            "read again and again: allow more"
        )


def _ran_out(limits: ContainerSpec) -> str:
    return f"ran out of memory (container.memory is {(limits.memory_byte or 0) / 1e6:g} MB)"
