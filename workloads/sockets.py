"""The few socket settings that every task needs, in one place."""

import errno
import fcntl
import socket
import struct
import sys
import termios

# A socket option of the virtual engine's kernel (testbed/virtual/edits.py): no other has it.
TCP_DRAIN = 26473
LEAST_DRAINED_BYTE = 4096  # for less a reader is as cheap
MOST_DRAINED_BYTE = 2**31 - 1
drains = True  # until a kernel says that it cannot
BACKLOG = 4096
CONNECT_LIMIT_S = 5.0
SIOCOUTQNSD = 0x894B  # of Linux; Python has no name for it
TCPI_BYTES_RECEIVED = slice(128, 136)  # of struct tcp_info


class TaskError(Exception):
    """A task cannot go on; the message says why, for the run's error line."""


def listener(address: str, port: int, tos: int) -> socket.socket:
    """A listening socket; what it accepts inherits its ToS, so answers are marked too."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    mark(sock, tos)
    try:
        sock.bind((address, port))
    except OSError as refused:
        raise TaskError(f"cannot bind {address}:{port}: {refused.strerror}") from refused
    sock.listen(BACKLOG)
    return sock


def connect(
    address: str, port: int, tos: int, source: tuple[str, int] | None = None
) -> socket.socket:
    """A connection, from a port of our own choice if `source` (address, port) is given."""
    sock = socket.socket()
    mark(sock, tos)
    sock.settimeout(CONNECT_LIMIT_S)
    try:
        if source is not None:
            come_from(sock, source)
        sock.connect((address, port))
    except OSError as refused:
        raise TaskError(f"cannot connect to {address}:{port}: {refused}") from refused
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def come_from(sock: socket.socket, source: tuple[str, int]) -> None:
    """Bind a socket that will connect; connections to other places may have the same port."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(source)


def accept(sock: socket.socket) -> socket.socket:
    sock.settimeout(CONNECT_LIMIT_S)
    try:
        connection, _ = sock.accept()
    except TimeoutError as nobody:
        raise TaskError(f"nobody connected to {sock.getsockname()}") from nobody
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def mark(sock: socket.socket, tos: int) -> None:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)


def unsent_byte(sock: socket.socket) -> int:
    """What was handed to TCP and has not left it once yet."""
    waiting = fcntl.ioctl(sock.fileno(), SIOCOUTQNSD, b"\0" * 4)
    return int(struct.unpack("i", waiting)[0])


def unacknowledged_byte(sock: socket.socket) -> int:
    """What was handed to TCP and the other side has not said that it has."""
    waiting = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", waiting)[0])


def received_byte(sock: socket.socket) -> int:
    """All that has arrived in order, whether it was read, dropped by the kernel or still waits."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCPI_BYTES_RECEIVED.stop)
    return int.from_bytes(info[TCPI_BYTES_RECEIVED], sys.byteorder)


def drain(sock: socket.socket, byte: int) -> int:
    """Have the kernel drop the next bytes as they arrive; returns how many it will have dropped.

    The caller sleeps until the byte after them is there. Otherwise every packet wakes its reader:
    in the virtual kernel, where reading takes no time, really every one. To TCP it is the same:
    the kernel drops bytes when, and as, a reader would take them who reads at once.
    """
    global drains
    byte = min(byte, MOST_DRAINED_BYTE)
    if byte < LEAST_DRAINED_BYTE or not drains:
        return 0
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_DRAIN, byte)
    except OSError as refused:
        if refused.errno != errno.ENOPROTOOPT:
            raise
        drains = False
        return 0
    return byte
