"""A TCP connection between two ranks that carries messages both ways, driven by readiness.

A message is a header and its bytes. They mean nothing (workloads/blank_bytes.py), unless the
sender gives them a content.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from workloads import blank_bytes
from workloads.loop import READ, WRITE, Loop
from workloads.sockets import drain, unacknowledged_byte

HEADER = struct.Struct("!IBxxxQ")  # tag, whether the content counts, bytes
SHORT_BYTE = 1 << 12  # a content up to this goes with its header, in one call
# Where somebody decides what goes next: what the kernel takes beyond what it has sent is out of
# their hands, so it takes no more than this and the buffer it is filling (64 KiB at most).
UNSENT_BYTE = 1 << 16


class Arrived(NamedTuple):
    tag: int
    byte: int
    content: memoryview | None


class Connection:
    """In a loop: asks for readiness only where it would lead to something."""

    def __init__(
        self,
        sock: socket.socket,
        loop: Loop,
        hear: Callable[[Arrived], None],
        broken: Callable[[str], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = loop
        self._hear = hear
        self._broken = broken
        self.closed = False
        self._outgoing: deque[memoryview | int] = deque()  # contents, or so many blank bytes
        self._unsent_byte = 0  # not yet handed to the kernel
        self._handed_byte = 0  # ever
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()  # who hears that, and when
        self._sending = False
        self._header = bytearray()
        self._arriving: tuple[int, int, bytearray | None] | None = None  # tag, bytes, content
        self._missing_byte = HEADER.size
        self._wanted = READ
        loop.watch(sock.fileno(), READ, self._ready)

    def bound_unsent(self, byte: int) -> None:
        """Let the kernel take this much more than it can send, and no further."""
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, byte)

    def send(
        self,
        tag: int,
        byte: int,
        content: memoryview | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """After all that is on its way; `sent` is called when the kernel has taken it."""
        header = HEADER.pack(tag, content is not None, byte)
        if content is not None and byte <= SHORT_BYTE:
            self._outgoing.append(memoryview(header + content))
        else:
            self._outgoing.append(memoryview(header))
            if byte:
                self._outgoing.append(byte if content is None else content)
        self._unsent_byte += HEADER.size + byte
        if sent is not None:
            self._marks.append((self._handed_byte + self._unsent_byte, sent))
        self._flush()

    def outstanding_byte(self) -> int:
        """What the other side has not got yet; asks the kernel only while there may be some."""
        if self.closed or not self._sending:
            return 0
        left = self._unsent_byte + unacknowledged_byte(self._sock)
        self._sending = left > 0
        return left

    def mark(self, tos: int) -> None:
        """The next packet carries this ToS."""
        if not self.closed:
            self._sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.unwatch(self._sock.fileno())
            self._sock.close()

    # Sending

    def _flush(self) -> None:
        """Send as much as the socket takes; then those hear whose messages it has taken whole."""
        if self.closed:
            return
        self._sending = True
        try:
            try:
                while self._outgoing:
                    self._put(self._outgoing[0])
            except BlockingIOError:
                pass
            wanted = READ | WRITE if self._outgoing else READ
            if wanted != self._wanted:
                self._wanted = wanted
                self._loop.watch(self._sock.fileno(), wanted, self._ready)
            marks = self._marks
            while marks and marks[0][0] <= self._handed_byte:
                marks.popleft()[1]()
        except OSError as error:
            self._broken(str(error))

    def _put(self, what: memoryview | int) -> None:
        """Send as much as the socket takes of what is first in line."""
        if isinstance(what, int):
            count, byte = blank_bytes.put(self._sock, what), what
        else:
            more = socket.MSG_MORE if len(self._outgoing) > 1 else 0
            count, byte = self._sock.send(what[: blank_bytes.PIECE_BYTE], more), len(what)
        self._unsent_byte -= count
        self._handed_byte += count
        if count == byte:
            self._outgoing.popleft()
        else:
            self._outgoing[0] = byte - count if isinstance(what, int) else what[count:]

    # Receiving

    def _ready(self, events: int) -> None:
        if self._outgoing:
            self._flush()
        if events & READ and not self.closed:
            try:
                self._take()
            except OSError as error:
                self._broken(str(error))

    def _take(self) -> None:
        """Take what has arrived, message by message."""
        try:
            while not self.closed:
                if self._arriving is None:
                    self._take_header()
                elif self._arriving[2] is not None:
                    self._take_content(self._arriving[2])
                else:
                    self._take_blank()
        except BlockingIOError:
            if self._arriving is not None and self._arriving[2] is None:  # nobody looks at it
                self._missing_byte -= drain(self._sock, self._missing_byte - 1)

    def _take_header(self) -> None:
        data = self._sock.recv(self._missing_byte)
        self._came(len(data))
        self._header += data
        if self._missing_byte:
            return
        tag, counts, byte = HEADER.unpack(self._header)
        self._header.clear()
        self._arriving = tag, byte, bytearray(byte) if counts else None
        self._missing_byte = byte
        if not byte:
            self._complete()

    def _take_content(self, content: bytearray) -> None:
        at = len(content) - self._missing_byte
        end = at + min(self._missing_byte, blank_bytes.PIECE_BYTE)
        self._came(self._sock.recv_into(memoryview(content)[at:end]))
        if not self._missing_byte:
            self._complete()

    def _take_blank(self) -> None:
        """Until a call is in vain: in the virtual kernel that takes 1 us, so results have it in."""
        self._came(blank_bytes.take(self._sock, self._missing_byte))
        if not self._missing_byte:
            self._complete()

    def _came(self, count: int) -> None:
        if not count:
            raise ConnectionError("the other side closed its connection")
        self._missing_byte -= count

    def _complete(self) -> None:
        """A message is here."""
        assert self._arriving is not None
        tag, byte, content = self._arriving
        self._arriving = None
        self._missing_byte = HEADER.size
        self._hear(Arrived(tag, byte, None if content is None else memoryview(content)))
