"""Puts a running process's traffic into a band, from outside and without its knowledge.

PyTorch and Horovod know nothing of bands. The kernel lets root copy a socket out of another
process (pidfd_getfd) and set its ToS; that is the same socket, so its next packet carries it. It
can be done again in mid-run.
"""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from basics.errors import RunFailed

PIDFD_GETFD = 438  # the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)


def mark(pid: int, tos: int) -> int:
    """Give all TCP sockets of a process this ToS; returns how many there are.

    What a listening socket accepts later inherits its ToS. Each socket is read back.
    """
    count = 0
    for sock in tcp_sockets(pid):
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        if (found := tos_of(sock)) != tos:
            raise RunFailed(f"a socket of process {pid} has ToS {found:#x} instead of {tos:#x}")
        count += 1
    return count


def marks(pid: int) -> list[int]:
    """The ToS of every TCP socket of a process."""
    return [tos_of(sock) for sock in tcp_sockets(pid)]


def tos_of(sock: socket.socket) -> int:
    # The kernel keeps the two ECN bits to itself.
    return sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) & 0xFC


def tcp_sockets(pid: int) -> Iterator[socket.socket]:
    """Every IPv4 TCP socket of a process: ours to use until the next one is asked for."""
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        raise RunFailed(f"cannot mark the sockets of process {pid}: {error.strerror}") from error
    try:
        for number in descriptors(pid):
            copy = _libc.syscall(PIDFD_GETFD, process, number, 0)
            if copy < 0:
                why = os.strerror(ctypes.get_errno())
                if os.path.exists(f"/proc/{pid}/fd/{number}"):
                    raise RunFailed(f"cannot take socket {number} of process {pid}: {why}")
                continue  # closed meanwhile
            with closing(socket.socket(fileno=copy)) as sock:
                if sock.family == socket.AF_INET and sock.type == socket.SOCK_STREAM:
                    yield sock
    finally:
        os.close(process)


def descriptors(pid: int) -> list[int]:
    """The descriptors of a process that are sockets."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if os.readlink(entry).startswith("socket:"):
                found.append(int(entry.name))
    return sorted(found)
