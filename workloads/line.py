"""A TCP connection that carries messages of known length, both ways, driven by readiness.

The bytes of a `Line` are real but meaningless: sent from one memory file and dropped by the
receiving kernel, so that a hundred tasks in a process need no memory for them. A `NumberLine`
carries real numbers: the test mode.
"""

import fcntl
import os
import socket
import struct
import termios
from collections import deque

import numpy as np
from numpy.typing import NDArray

from workloads.ring import PIECE_BYTE, SCRATCH, blank_file
from workloads.sockets import Patience

Numbers = NDArray[np.float32]


class Line:
    """Call `pump_out` when the socket takes bytes and `pump_in` when it has some."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.to_send_byte = 0  # not yet handed to the kernel
        self.missing_byte = 0  # of the message that is arriving
        self._patience = Patience(sock)

    def send(self, byte: int) -> None:
        """So many bytes more are to go."""
        self.to_send_byte += byte

    def expect(self, byte: int) -> None:
        """The next message has this length."""
        self.missing_byte = byte

    @property
    def outstanding_byte(self) -> int:
        """What the other side has not got yet: not sent, or sent and not acknowledged."""
        waiting = fcntl.ioctl(self.sock.fileno(), termios.TIOCOUTQ, b"\0" * 4)
        return self.to_send_byte + int(struct.unpack("i", waiting)[0])

    def pump_out(self) -> None:
        """Send as far as the socket takes it."""
        try:
            while self.to_send_byte:
                self.to_send_byte -= self._put(min(self.to_send_byte, PIECE_BYTE))
        except BlockingIOError:
            return

    def pump_in(self) -> bool:
        """Take what has arrived, no further than the message's end; True when it is complete."""
        while self.missing_byte:
            try:
                count = self._take(min(self.missing_byte, PIECE_BYTE))
            except BlockingIOError:
                self._patience.wait_for(self.missing_byte)
                return False
            if count == 0:
                raise ConnectionError("the other side closed its connection")
            self.missing_byte -= count
        return True

    def _put(self, length: int) -> int:
        return os.sendfile(self.sock.fileno(), blank_file(), 0, length)

    def _take(self, length: int) -> int:
        return self.sock.recv_into(SCRATCH, length, socket.MSG_TRUNC)


class NumberLine(Line):
    """Carries the bytes of float32 numbers; a message that is no array (a request) is zeros."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._outgoing: deque[memoryview] = deque()
        self._arriving = memoryview(bytearray())
        self._whole_byte = 0

    def send(self, byte: int) -> None:
        self.send_bytes(memoryview(bytes(byte)))

    def send_bytes(self, content: memoryview) -> None:
        if len(content):
            self._outgoing.append(content)
            self.to_send_byte += len(content)

    def expect(self, byte: int) -> None:
        super().expect(byte)
        self._whole_byte = byte
        self._arriving = memoryview(bytearray(-(-byte // 4) * 4))

    @property
    def numbers(self) -> Numbers:
        """The message that has arrived."""
        return np.frombuffer(self._arriving, np.float32)

    def _put(self, length: int) -> int:
        count = self.sock.send(self._outgoing[0][:length])
        self._outgoing[0] = self._outgoing[0][count:]
        if not len(self._outgoing[0]):
            self._outgoing.popleft()
        return count

    def _take(self, length: int) -> int:
        at = self._whole_byte - self.missing_byte
        return self.sock.recv_into(self._arriving[at : at + length])
