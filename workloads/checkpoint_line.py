"""A checkpoint's way between two hosts: one TCP connection, a head, the bytes, and an answer.

The head says how many bytes come and what their SHA-256 is, so that a checkpoint is whole or is
not there. The receiver answers with that hash when it has all of it: only then may the sender
forget its own. The sockets' ToS is the band, so a link policy decides who gives way to a migration.
"""

import hashlib
import socket
import struct

from workloads.sockets import TaskError

HEAD = struct.Struct("!Q32s")
MOST_BYTE = 1 << 40
PIECE_BYTE = 1 << 20


def give(sock: socket.socket, data: bytes) -> None:
    """Send all of it, and wait until the other side says that it has it. The socket has a limit."""
    hashed = hashlib.sha256(data).digest()
    try:
        sock.sendall(HEAD.pack(len(data), hashed))
        sock.sendall(data)
    except OSError as broken:
        raise TaskError(f"a checkpoint of {len(data)} bytes was not sent: {broken}") from broken
    if _exactly(sock, len(hashed)) != hashed:
        raise TaskError("a checkpoint was received, but is another one")


def take(sock: socket.socket) -> bytes:
    """Receive a checkpoint and say that it is here."""
    size_byte, hashed = HEAD.unpack(_exactly(sock, HEAD.size))
    if size_byte > MOST_BYTE:
        raise TaskError(f"a checkpoint of {size_byte} bytes was announced; {MOST_BYTE} are allowed")
    data = _exactly(sock, size_byte)
    if hashlib.sha256(data).digest() != hashed:
        raise TaskError(f"a checkpoint of {size_byte} bytes was damaged on its way")
    try:
        sock.sendall(hashed)
    except OSError as broken:
        raise TaskError(f"nobody waits for the answer to a checkpoint: {broken}") from broken
    return data


def _exactly(sock: socket.socket, size_byte: int) -> bytes:
    found = bytearray()
    while len(found) < size_byte:
        try:
            piece = sock.recv(min(PIECE_BYTE, size_byte - len(found)))
        except OSError as broken:
            raise TaskError(f"a checkpoint's connection failed: {broken}") from broken
        if not piece:
            raise TaskError(f"a checkpoint ended after {len(found)} of {size_byte} bytes")
        found += piece
    return bytes(found)
