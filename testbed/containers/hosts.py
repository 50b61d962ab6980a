"""Docker containers as hosts: started for one run, attached to nothing, and gone with it.

A container's first process is the same warm interpreter that forks tasks elsewhere
(testbed/live/nursery.py), but the image's, as an ordinary user, with no capability at all. It
finds its controller by a Unix socket in a mounted folder: sockets pass descriptors through that, so
a task in a container has the same control line as any other, and no network is needed for it. So
what runs in a host lives in the container's cgroup, mount, pid and network namespaces from its
first instruction; `docker exec` would cost a fresh interpreter for every task, and a fork of ours
that entered the namespaces would not be the image's Python.
"""

import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from basics.errors import RunFailed
from testbed import processes
from testbed.clean import SOCKETS
from testbed.containers import docker_engine
from testbed.containers.docker_engine import RUN_LABEL
from testbed.containers.image import NATIVE, Image
from testbed.containers.memory import MemoryGroup, demand_progress, out_of_memory
from testbed.containers.view import Room
from testbed.live import hosts_file
from testbed.run_folder import RunFolder
from testbed.spec.hosts import ContainerSpec

USER = 10001  # as in docker/worker.Dockerfile
INSIDE = "/run/giveway"
START_LIMIT_S = 20.0
LOOK_S = 1.0  # between two looks at how a container starts
STACK_LIMIT_S = 180.0  # as many imports of torch at once as there are hosts, on a busy machine
POST_MORTEM_S = 1.0
KILLED = 128 + signal.SIGKILL
MOST_PROCESSES = 256
MOST_SHARES = 262144  # Linux's own limit: a host goes before whatever else the machine does
BEST_NICE = -20
SIDE_BY_SIDE = 8

T = TypeVar("T")


class Container:
    """One host. `pid` is its first process, whose network namespace is the host's."""

    def __init__(self, host: str, name: str, pid: int, room: Room) -> None:
        self.host = host
        self.name = name
        self.pid = pid
        self.room = room
        self._memory = MemoryGroup(pid)

    def what_happened(self, limits: ContainerSpec) -> str | None:
        """Why it cannot go on; None if it can."""
        running, starved, code = state(self.name)
        if starved or self._memory.kills:
            return out_of_memory(self.host, limits)
        if not running and code:
            how = f"by signal {code - 128}" if code > 128 else f"with code {code}"
            return f"the container of {self.host} was ended in mid-run, {how}, from outside Giveway"
        return None


class Containers:
    """The containers of a run, by host. Use as a context manager: leaving it removes them."""

    def __init__(
        self,
        hosts: Sequence[str],
        limits: ContainerSpec | None,
        run_id: str,
        folder: RunFolder,
        image: Image = NATIVE,
        preload: Sequence[str] = (),
        own_names: Path | None = None,  # see testbed/live/hosts_file.py
    ) -> None:
        self._hosts = hosts
        self._image = image
        self._preload = preload  # once in each container, before it forks its workers
        self._start_limit_s = STACK_LIMIT_S if preload else START_LIMIT_S
        self._limits = limits or ContainerSpec()
        self._run_id = run_id
        self._sockets = SOCKETS / f"{run_id}:{processes.own_mark()}"
        self._shared = {
            folder.journals: f"{INSIDE}/journals",
            folder.logs: f"{INSIDE}/logs",
        }
        self._names = hosts_file.places(own_names) if own_names else {}
        self._owners: dict[Path, tuple[int, int]] = {}
        self.by_host: dict[str, Container] = {}

    @property
    def pids(self) -> dict[str, int]:
        return {host: container.pid for host, container in self.by_host.items()}

    @property
    def rooms(self) -> dict[str, Room]:
        return {host: container.room for host, container in self.by_host.items()}

    def __enter__(self) -> Self:
        try:
            self._lend_folders()
            self._sockets.mkdir(parents=True)
            self._sockets.chmod(stat.S_IRWXU)
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                started = list(pool.map(self._start, self._hosts))
            self.by_host = dict(zip(self._hosts, started, strict=True))
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """A run that fails inside because of a container fails with that container's story.

        Its peers notice first: a closed connection is quicker than Docker.
        """
        try:
            yield
        except RunFailed as failure:
            give_up_s = time.monotonic() + POST_MORTEM_S
            while time.monotonic() < give_up_s:
                for container in self.by_host.values():
                    why = container.what_happened(self._limits)
                    if why:
                        raise RunFailed(f"{why} ({failure})") from failure
                time.sleep(0.1)
            raise

    # Starting

    def _start(self, host: str) -> Container:
        folder = self._sockets / host
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as door:
            path = folder / "nursery"
            door.bind(str(path))
            path.chmod(0o666)  # the folder above is root's alone
            door.listen()
            name = f"giveway-{self._run_id}-{host}"
            start = (self._image.name, f"{INSIDE}/control/nursery", "-", *self._preload)
            docker_engine.ask("run", *self._options(host, name, folder), *start)
            line = self._answered(door, host, name)
        pid = pid_of(name)
        if self._limits.cpus is None:
            outrank(pid)
        return Container(host, name, pid, Room(host, line, pid, self._shared))

    def _options(self, host: str, name: str, control: Path) -> list[str]:
        mounts = {control: f"{INSIDE}/control", **self._shared, **self._names}
        options = ["-d", "--pull=never", f"--name={name}", f"--hostname={host}"]
        options += [*docker_engine.labels(self._run_id), *docker_engine.CONFINED]
        options += [f"--pids-limit={MOST_PROCESSES}"]
        for outside, inside in mounts.items():
            options += ["--mount", f'type=bind,"source={outside.absolute()}",target={inside}']
        if self._limits.cpus is None:
            options.append(f"--cpu-shares={MOST_SHARES}")
        else:
            options.append(f"--cpus={self._limits.cpus:g}")
        if self._limits.memory_byte is not None:
            # The same for memory and swap: a host that swaps would be slow without saying so.
            options.append(f"--memory={self._limits.memory_byte}")
            options.append(f"--memory-swap={self._limits.memory_byte}")
        return options

    def _answered(self, door: socket.socket, host: str, name: str) -> socket.socket:
        """Its interpreter's line, once that is warm."""
        give_up_s = time.monotonic() + self._start_limit_s
        door.settimeout(LOOK_S)
        line, _ = self._awaited(door.accept, host, name, give_up_s)
        line.settimeout(LOOK_S)
        # The nursery's word that all is imported.
        if self._awaited(lambda: processes.received(line), host, name, give_up_s):
            line.setblocking(True)
            return line
        line.close()
        raise RunFailed(self._stillborn(host, name))

    def _awaited(self, action: Callable[[], T], host: str, name: str, give_up_s: float) -> T:
        """What comes of something that times out now and then, for a look at the container."""
        while time.monotonic() < give_up_s:
            try:
                return action()
            except TimeoutError:
                if not state(name).running:
                    raise RunFailed(self._stillborn(host, name)) from None
                demand_progress(host, MemoryGroup(pid_of(name)), self._limits)
        limit_s = self._start_limit_s
        raise RunFailed(f"the container of {host} did not start within {limit_s:g} s")

    def _stillborn(self, host: str, name: str) -> str:
        """Why a container ended before its nursery was warm."""
        give_up_s = time.monotonic() + POST_MORTEM_S
        while (now := state(name)).running and time.monotonic() < give_up_s:
            time.sleep(0.1)  # the line closes before Docker knows
        # Docker may learn why only later; nobody but the kernel kills a container this young.
        if now.starved or (now.code == KILLED and self._limits.memory_byte is not None):
            return out_of_memory(host, self._limits)
        said = docker_engine.ask("logs", "--tail", "3", name, both=True).split("\n")
        words = "; ".join(line.strip() for line in said if line.strip())
        return f"the container of {host} ended at once: {words or 'it said nothing'}"

    # What is borrowed, and given back

    def _lend_folders(self) -> None:
        """Journals and logs are written by the containers' user while they live."""
        for folder in self._shared:
            status = folder.stat()
            self._owners[folder] = (status.st_uid, status.st_gid)
            os.chown(folder, USER, USER)

    def _remove(self) -> None:
        docker_engine.remove(docker_engine.containers(f"{RUN_LABEL}={self._run_id}"))
        shutil.rmtree(self._sockets, ignore_errors=True)
        for folder, owner in self._owners.items():
            for path in (folder, *folder.iterdir()):
                os.chown(path, *owner)


class ContainerState(NamedTuple):
    """What Docker knows of a container."""

    running: bool
    starved: bool
    code: int


def state(name: str) -> ContainerState:
    form = "{{.State.Running}} {{.State.OOMKilled}} {{.State.ExitCode}}"
    running, starved, code = docker_engine.ask("inspect", "-f", form, name).split()
    return ContainerState(running == "true", starved == "true", int(code))


def pid_of(name: str) -> int:
    """A container's first process, as this machine sees it."""
    return int(docker_engine.ask("inspect", "-f", "{{.State.Pid}}", name))


def outrank(pid: int) -> None:
    """Give a nursery, and so all that it forks, the rank that tasks have elsewhere.

    From outside, so that the container needs no right to do it. A kernel may ration real time by
    cgroup, and a container's share is none: then the process leaves the one group that does that,
    which says nothing in a container without a limit of processors (memory, processes and devices
    stay the container's). Where that does not help, the best ordinary rank has to do, and the
    lateness of the run shows it. A container with such a limit is left alone: the real-time class
    does not heed it.
    """
    for prepare in (None, leave_processor_group):
        try:
            if prepare is not None:
                prepare(pid)
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
            return
        except OSError:
            continue
    os.setpriority(os.PRIO_PROCESS, pid, BEST_NICE)


def leave_processor_group(pid: int) -> None:
    """Only where cgroups are separate by controller (version 1)."""
    Path("/sys/fs/cgroup/cpu/cgroup.procs").write_text(str(pid))
