"""Connections that are made while a loop runs: nobody waits for them, others have things to do.

Who connects says what for in its first bytes; who is called hears of the connection with them.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable
from functools import partial

from workloads.loop import READ, WRITE, Loop
from workloads.sockets import TaskError, come_from, mark

HELLO = struct.Struct("!IIBII")  # job, epoch, what for, and two numbers more

STEP, MOST_TURNS = 2, 100  # from one source port to the next that is tried

Place = tuple[int, int, int, int, int]  # what a hello says


def watch_door(
    loop: Loop, door: socket.socket, greeted: Callable[[Place, socket.socket], None]
) -> None:
    """From now on, whoever connects and says what for is heard of."""

    def accept(events: int) -> None:
        while True:
            try:
                sock, _ = door.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop.watch(sock.fileno(), READ, partial(read, sock, bytearray()))

    def read(sock: socket.socket, heard: bytearray, events: int) -> None:
        try:
            piece = sock.recv(HELLO.size - len(heard))
        except ConnectionResetError:
            piece = b""
        heard += piece
        if piece and len(heard) < HELLO.size:
            return
        loop.unwatch(sock.fileno())
        if len(heard) < HELLO.size:  # it left without a word
            sock.close()
        else:
            greeted(HELLO.unpack(heard), sock)

    door.setblocking(False)
    loop.watch(door.fileno(), READ, accept)


def dial(
    loop: Loop,
    address: tuple[str, int],
    tos: int,
    hello: Place,
    then: Callable[[socket.socket], None],
    failed: Callable[[str], None],
    source: tuple[str, int] | None = None,
) -> None:
    """Connect, say what for, and go on with `then`; or with `failed`, if nobody is there.

    `source`: where to connect from; if that is taken, from a port after it.
    """
    sock = _calling(address, tos, source)

    def connected(events: int) -> None:
        loop.unwatch(sock.fileno())
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            sock.close()
            failed(f"cannot connect to {address[0]}:{address[1]}: {os.strerror(error)}")
            return
        sock.send(HELLO.pack(*hello))
        then(sock)

    loop.watch(sock.fileno(), WRITE, connected)


def _calling(address: tuple[str, int], tos: int, source: tuple[str, int] | None) -> socket.socket:
    for turn in range(MOST_TURNS):
        sock = socket.socket()
        mark(sock, tos)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source is not None:
            come_from(sock, (source[0], source[1] + STEP * turn))
        if sock.connect_ex(address) not in (errno.EADDRNOTAVAIL, errno.EADDRINUSE):
            return sock
        sock.close()
    raise TaskError(f"no port to connect to {address[0]}:{address[1]} from is free")
