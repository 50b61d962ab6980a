"""The nursery: a warm interpreter that forks tasks into network namespaces.

Started by testbed.processes.Nursery, never by hand. Requests come over a socket, each with the
control socket of the task to be; exits go back the same way. The end of the socket means that
the controller is gone: then every task is killed.

In a Docker host the nursery is the container's first process, and finds the socket by its path.
"""

import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

# Imported here so that no task has to: what is loaded before the fork is shared.
import workloads.generator
import workloads.host_process  # noqa: F401
from testbed.live import hosts_file
from testbed.processes import enter_network
from workloads.control import Control
from workloads.sockets import TaskError

HEADER_BYTE = 8  # of a request: how long it is
OWN_NAMES = "-"  # instead of a folder: /etc/hosts as it is
UP = b"!"  # one byte to the controller: all is imported
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_TIMERSLACK = 29
DIES_FIRST = "500"  # if memory runs out: a task, and not its controller or the user's other work

libc = ctypes.CDLL(None, use_errno=True)


def main(controller: socket.socket, preload: list[str]) -> None:
    for module in preload:
        importlib.import_module(module)
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    # Tasks make no cycles worth collecting, and a collection would come at the wrong moment,
    # copying every page that it looks at.
    gc.collect()
    gc.freeze()
    gc.disable()
    children: dict[int, str] = {}
    selector = selectors.DefaultSelector()
    selector.register(controller, selectors.EVENT_READ)
    selector.register(wakeup_read, selectors.EVENT_READ)
    controller.sendall(UP)
    try:
        while True:
            for key, _ in selector.select():
                if key.fileobj is controller:
                    request, control = receive(controller)
                    children[fork(request, control, controller)] = request["name"]
                else:
                    os.read(wakeup_read, 4096)
                    reap(children, controller)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def receive(controller: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """A request: its length in eight bytes, with the first of which a descriptor comes."""
    begun, descriptors, _, _ = socket.recv_fds(controller, HEADER_BYTE, 1)
    if not begun:
        raise EOFError
    header = begun + exactly(controller, HEADER_BYTE - len(begun))
    data = exactly(controller, int.from_bytes(header, "big"))
    if not descriptors:  # the kernel drops one for which this process has no room
        raise TaskError("too many open files in the nursery: raise `ulimit -n`")
    return json.loads(data), socket.socket(fileno=descriptors[0])


def exactly(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = line.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def report(controller: socket.socket, **message: Any) -> None:
    controller.sendall(json.dumps(message).encode() + b"\n")


def reap(children: dict[int, str], controller: socket.socket) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        name = children.pop(pid, None)
        if name is not None:  # a container's first process also inherits orphans
            code = os.waitstatus_to_exitcode(status)
            report(controller, event="exit", name=name, code=code)


def fork(request: dict[str, Any], control: socket.socket, controller: socket.socket) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        control.close()
        return pid
    code = 1
    line = Control(control)
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        controller.close()
        become(request)
        line.say("hello", pid=os.getpid())
        module, _, function = request["target"].partition(":")
        getattr(importlib.import_module(module), function)(request["config"], line)
        code = 0
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
    except TaskError as error:
        line.say("error", message=str(error))
    except BaseException as error:
        line.say("error", message=f"{type(error).__name__}: {error}")
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(request: dict[str, Any]) -> None:
    """Turn a fresh fork into the task: its log, its signals, its timers, its network."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open("/proc/self/oom_score_adj", "w") as adjustment:
        adjustment.write(DIES_FIRST)
    libc.prctl(PR_SET_TIMERSLACK, 1)
    libc.prctl(PR_SET_NAME, request["name"].encode()[:15])
    if request["outrank"]:
        outrank_everybody()
    if request["netns_pid"] is not None:
        enter_network(request["netns_pid"])


def outrank_everybody() -> None:
    """Real-time class, lowest rung: a task sleeps most of the time, and must wake on time.

    On a machine with both cores busy, 99 % of the sleeps end within 0.5 ms; as an ordinary
    process with the best nice value, within 40 ms.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("not allowed to use the real-time class: wake-ups may be late", file=sys.stderr)


def line_to_controller(where: str) -> socket.socket:
    """An inherited descriptor, or the path of a socket that the controller listens on."""
    if where.isdigit():
        return socket.socket(fileno=int(where))
    line = socket.socket(socket.AF_UNIX)
    line.connect(where)
    return line


if __name__ == "__main__":
    where, names_in, *modules = sys.argv[1:]
    if names_in != OWN_NAMES:
        hosts_file.adopt(Path(names_in))
    main(line_to_controller(where), modules)
