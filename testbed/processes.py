"""The one module that starts processes. Tests replace it; everything it starts has an owner.

Short commands go through `run`. Workers, generators and samplers are tasks: forked by one warm
interpreter (the nursery, testbed/live/nursery.py) so that sixty-four of them start as fast as one
imports. If the controller dies, even by kill -9, the nursery reads the end of its pipe and takes
every task with it.
"""

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from basics.errors import CannotRun, RunFailed
from basics.home import how
from basics.lines import Lines
from testbed.containers.view import Room

RUN_VARIABLE = "GIVEWAY_RUN"
CONTROLLER_VARIABLE = "GIVEWAY_CONTROLLER"  # "pid:start", as older ones wrote it
NAMESPACE_VARIABLE = "GIVEWAY_PID_NAMESPACE"
NURSERY_LIMIT_S = 120  # for its imports (torch among them), on a busy machine with cold caches
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
Result = TypeVar("Result")


def environment(run_id: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """What every process of a run carries, so that `giveway clean` can tell whose it is."""
    controller, _, namespace = own_mark().rpartition(":")
    return {
        **(os.environ if base is None else base),
        RUN_VARIABLE: run_id,
        CONTROLLER_VARIABLE: controller,
        NAMESPACE_VARIABLE: namespace,
    }


def own_mark() -> str:
    """This process, for those who come later: "pid:start:namespace"."""
    return f"{os.getpid()}:{start_time(os.getpid())}:{pid_namespace()}"


def start_time(pid: int) -> int | None:
    """The kernel's start tick of a process: with the pid, its identity. None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def pid_namespace() -> int:
    """The namespace in which pids mean what /proc says; 0 if /proc is another one's."""
    if os.readlink("/proc/self") != str(os.getpid()):
        return 0
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # a kernel without such namespaces
        return 0


def is_gone(mark: str) -> bool:
    """Whether the process of a mark was one of this pid namespace, and is no longer there.

    Of a run in another container nobody here can tell: its pid means another process here.
    """
    parts = mark.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return False
    pid, started, namespace = map(int, parts)
    return namespace == pid_namespace() != 0 and start_time(pid) != started


def run(
    argv: Sequence[str], *, stdin: str = "", limit_s: float = 30, netns_pid: int | None = None
) -> str:
    """Run a short command, optionally in the network namespace of a process; return its output."""
    if netns_pid is not None:
        return in_network(netns_pid, lambda: run(argv, stdin=stdin, limit_s=limit_s))
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except FileNotFoundError as missing:
        raise CannotRun(
            f"the command {missing.filename} is not installed: run `{how('make setup')}`"
        ) from missing
    except subprocess.TimeoutExpired as late:
        raise RunFailed(f"`{' '.join(argv)}` did not end within {limit_s:g} s") from late
    if done.returncode:
        complaint = (done.stderr or done.stdout).strip().replace("\n", "; ")
        raise RunFailed(f"`{' '.join(argv)}` failed ({done.returncode}): {complaint}")
    return done.stdout


def in_network(pid: int, action: Callable[[], Result]) -> Result:
    """Do something in the network namespace of a process; what it starts or opens stays there.

    setns changes the calling thread only, so the action gets a thread of its own: no need for a
    process (nsenter) that does nothing but change places.
    """

    def act() -> Result:
        enter_network(pid)
        return action()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


def enter_network(pid: int) -> None:
    """Move the calling thread to the network namespace of a process."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if _libc.setns(namespace, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")
    finally:
        os.close(namespace)


def popen(
    argv: Sequence[str], run_id: str, *, base: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a long-lived process that carries the run id; `base` replaces our environment."""
    return subprocess.Popen(argv, env=environment(run_id, base), **options)


class Task:
    """One forked process: what it says on its control socket, and how it ended."""

    def __init__(self, name: str, control: socket.socket, log: Path) -> None:
        self.name = name
        self.log = log
        self.exit_code: int | None = None
        self.last_heard_s = time.monotonic()
        self.said: dict[str, dict[str, Any]] = {}  # the last message of each kind
        self._control = control
        self._lines = Lines()

    def fileno(self) -> int:
        return self._control.fileno()

    @property
    def pid(self) -> int | None:
        """Its process, once it has said hello."""
        return self.said["hello"]["pid"] if "hello" in self.said else None

    def tell(self, **message: Any) -> None:
        """Send a message; a task that is already gone is noticed elsewhere, by its exit."""
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return

    def listen(self) -> list[dict[str, Any]] | None:
        """Everything it has said since the last call; None if nothing more can come."""
        try:
            data = self._control.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            return None
        messages: list[dict[str, Any]] = [json.loads(line) for line in self._lines.feed(data)]
        for message in messages:
            self.said[message["event"]] = message
        if messages:
            self.last_heard_s = time.monotonic()
        return messages

    def log_tail(self) -> str:
        return last_line(self.log)

    def close(self) -> None:
        self._control.close()


def last_line(log: Path) -> str:
    """The last line of a log that says anything: of a traceback, what went wrong."""
    try:
        with log.open(errors="replace") as lines:
            return next(iter(deque((line.strip() for line in lines if line.strip()), 1)), "")
    except OSError:
        return ""


def received(line: socket.socket) -> bytes:
    """What is there; nothing if the other end is gone, however it went."""
    try:
        return line.recv(1 << 16)
    except ConnectionResetError:
        return b""


class Nursery:
    """A warm interpreter that forks tasks, and the tasks it has forked.

    Use as a context manager: leaving it ends every task.
    """

    def __init__(
        self,
        run_id: str,
        log: Path,
        *,
        outrank: bool = True,
        preload: Sequence[str] = (),
        names: Path | None = None,
    ) -> None:
        """`preload`: modules that tasks find loaded. `names`: see testbed/live/hosts_file.py."""
        self._outrank = outrank  # tasks go before every other process of the machine
        self.tasks: dict[str, Task] = {}
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._lines = Lines()
        self._selector = selectors.DefaultSelector()
        told = (str(theirs.fileno()), str(names or "-"), *preload)
        with log.open("ab") as output, theirs:
            self._process = popen(
                [sys.executable, "-m", "testbed.live.nursery", *told],
                run_id,
                base={**os.environ, "OMP_NUM_THREADS": "1"},  # a thread does not survive a fork
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._log = log
        self._rooms: dict[str, Room] = {}  # by the name of the task that lives there
        self._selector.register(ours, selectors.EVENT_READ, None)

    def start(
        self,
        target: str,
        config: dict[str, Any],
        *,
        name: str,
        log: Path,
        netns_pid: int | None = None,
        room: Room | None = None,
    ) -> Task:
        """Fork a process that calls `target` ("module:function") with (config, control).

        In a room it is forked by the room's own interpreter.
        """
        ours, theirs = socket.socketpair()
        request = {
            "name": name,
            "target": target,
            "config": config,
            "log": str(log) if room is None else room.inside(log),
            "netns_pid": None if room else netns_pid,
            "outrank": self._outrank and room is None,  # a container's rank is set from outside
        }
        data = json.dumps(request).encode()
        line = self._socket if room is None else room.line
        with theirs:
            try:
                socket.send_fds(line, [len(data).to_bytes(8, "big")], [theirs.fileno()])
                line.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                ours.close()
                raise RunFailed(f"{name} cannot be started: its nursery is gone") from None
        if room is not None:
            self._rooms[name] = room
            if room.line not in self._selector.get_map():
                self._selector.register(room.line, selectors.EVENT_READ, room)
        task = Task(name, ours, log)
        self.tasks[name] = task
        self._selector.register(ours, selectors.EVENT_READ, task)
        return task

    def events(self, wait_s: float) -> Iterator[tuple[Task, dict[str, Any]]]:
        """What tasks say within `wait_s`; an {"event": "exit", "code": n} when one ends."""
        for key, _ in self._selector.select(max(0.0, wait_s)):
            if key.data is None:
                yield from self._exits()
            elif isinstance(key.data, Room):
                yield from self._exits_in(key.data)
            else:
                task: Task = key.data
                messages = task.listen()
                if messages is None:
                    self._selector.unregister(task)
                for message in messages or ():
                    if message["event"] == "hello" and task.name in self._rooms:
                        message["pid"] = self._rooms[task.name].pid_outside(message["pid"])
                    yield task, message

    def _exits_in(self, room: Room) -> Iterator[tuple[Task, dict[str, Any]]]:
        data = received(room.line)
        if not data:
            raise RunFailed(f"the container of {room.name} is gone")
        yield from self._ended(room.lines.feed(data))

    def _exits(self) -> Iterator[tuple[Task, dict[str, Any]]]:
        data = received(self._socket)
        if not data:
            raise RunFailed(f"the process nursery died unexpectedly: {self._last_words()}")
        yield from self._ended(self._lines.feed(data))

    def _ended(self, lines: list[bytes]) -> Iterator[tuple[Task, dict[str, Any]]]:
        for line in lines:
            message = json.loads(line)
            task = self.tasks[message["name"]]
            task.exit_code = message["code"]
            yield task, message

    def forget(self, task: Task) -> None:
        """Drop a task that has ended."""
        if task.fileno() in self._selector.get_map():
            self._selector.unregister(task)
        task.close()
        self.tasks.pop(task.name, None)

    def __enter__(self) -> Self:
        self._socket.settimeout(NURSERY_LIMIT_S)
        try:
            up = self._socket.recv(1)
        except TimeoutError:
            up = b""
        self._socket.settimeout(None)
        if not up:
            self.__exit__()
            raise RunFailed(f"the process nursery did not start: {self._last_words()}")
        return self

    def _last_words(self) -> str:
        return f"{last_line(self._log) or 'no message'} (its log: {self._log})"

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._socket.close()  # the nursery reads the end of it and ends its tasks
        for room in self._rooms.values():
            room.line.close()
        for task in self.tasks.values():
            task.close()
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
