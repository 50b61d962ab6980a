"""The few socket settings that every task needs, in one place."""

import socket
import struct

BACKLOG = 4096
CONNECT_LIMIT_S = 5.0
MESSAGE_LIMIT_BYTE = 1 << 16


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


def send_numbers(sock: socket.socket, *numbers: int) -> None:
    """A short message: a count, then that many 32-bit numbers."""
    sock.sendall(struct.pack(f"!I{len(numbers)}I", len(numbers), *numbers))


class NumberReader:
    """Reassembles `send_numbers` messages from a non-blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    def read(self) -> list[tuple[int, ...]]:
        try:
            data = self._sock.recv(MESSAGE_LIMIT_BYTE)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the other side closed its connection")
        self._buffer += data
        messages = []
        while len(self._buffer) >= 4:
            (count,) = struct.unpack_from("!I", self._buffer)
            end = 4 + 4 * count
            if len(self._buffer) < end:
                break
            messages.append(struct.unpack_from(f"!{count}I", self._buffer, 4))
            self._buffer = self._buffer[end:]
        return messages


class Patience:
    """Lets a receiver sleep until it is worth waking up (SO_RCVLOWAT).

    Otherwise every packet wakes its reader: in the virtual kernel, where reading takes no time,
    really every one. It never asks for more than an eighth of the receive buffer: bytes that
    nobody reads narrow the window that TCP offers, and that is not ours to change.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._set = 0  # not known: the last user of this socket may have left it anywhere
        self._most = 0

    def wait_for(self, missing_byte: int) -> None:
        """Wake when this much is there, or a good helping of it."""
        if missing_byte > self._most:
            self._most = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 8
        wanted = min(missing_byte, self._most)
        if wanted != self._set:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
            self._set = wanted
