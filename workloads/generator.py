"""The flow generator: one process a host that sends this host's flows and receives the others'.

Open loop: a flow starts when the schedule says, however many are still under way. One TCP
connection a flow; its first 16 bytes name it. It is complete when the receiver has its last
byte, and the receiver's record says when that was. The receiver then closes at once, and with
that the sender has the last acknowledgement: it writes down when it hears it, quietly.

Where the link policy demotes, the sender marks: a flow's first bytes carry one ToS and the rest
another. A mark is of the socket and not of its bytes: so it changes at the moment when all that
is to carry the old one has left TCP, and nothing else has been handed over (TCP_NOTSENT_LOWAT says
when that is). No byte leaves for the first time with a wrong mark; what is sent again carries the
mark of then.
"""

import errno
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from workloads.blank_bytes import PIECE_BYTE, SCRATCH, blank_file
from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import READ, WRITE, Clock, Loop, QuietClock
from workloads.sockets import (
    come_from,
    drain,
    listener,
    mark,
    received_byte,
    unacknowledged_byte,
    unsent_byte,
)
from workloads.task import heartbeat, lateness
from workloads.tcp_samples import TcpSamples

CLOSING_BYTE = 1  # of a sequence, that stands for closing
HEADER = struct.Struct("!QQ")  # flow, size in bytes (the header included)


@dataclass(frozen=True)
class GeneratorConfig:
    """One host's generator. `doors` are its listening ports, one for each ToS in use."""

    address: str
    doors: dict[str, int]  # ToS -> port
    flows: list[tuple[int, int, str, int, int]]  # flow, start_ns, address, size_byte, mix
    marks: list[list[tuple[int, int]]]  # of each mix: after so many bytes, this ToS; from 0 on
    dilation: float
    duration_ns: int
    journal: str
    sample_ns: int = 0  # how often its connections are sampled; 0: never
    # Of the flows, one after the other; none: the kernel's choice.
    source_ports: list[int] = field(default_factory=list)


def main(config: dict[str, Any], control: Control) -> None:
    settings = GeneratorConfig(**config)
    doors = [listener(settings.address, port, int(tos)) for tos, port in settings.doors.items()]
    control.say("ready")
    clock = Clock(control.hear()["epoch_ns"], settings.dilation)
    with Journal(Path(settings.journal)) as journal:
        generator = Generator(settings, Loop(clock), journal)
        generator.run(doors, control)
    control.say(
        "done",
        flow_late_ns=lateness(generator.late_ns),
        started=len(generator.late_ns),
        received=generator.received,
        broken=generator.broken,
    )
    control.hear()  # stay until all are done: a closed socket would break others' flows


class Generator:
    def __init__(self, settings: GeneratorConfig, loop: Loop, journal: Journal) -> None:
        self._settings = settings
        self._loop = loop
        self._journal = journal
        self._due = deque(settings.flows)
        self._source_ports = deque(settings.source_ports)
        self._arriving: dict[int, Receiving] = {}  # by descriptor
        self._quiet_clock = QuietClock(loop.clock)
        self._samples = (
            TcpSamples(loop, "tcp_of_flows", settings.sample_ns) if settings.sample_ns else None
        )
        self._acked: list[tuple[int, int]] = []  # flow, when
        self.late_ns: list[int] = []
        self.received = 0
        self.broken = 0

    def run(self, doors: list[socket.socket], control: Control) -> None:
        loop = self._loop
        for door in doors:
            door.setblocking(False)
            loop.watch(door.fileno(), READ, partial(self._accept, door))
        heartbeat(loop, control)
        self._await_next()
        loop.at(self._settings.duration_ns, loop.stop)
        loop.run()
        for receiving in self._arriving.values():
            self._note_unfinished(receiving)
        for flow, acked_ns in self._acked:
            self._journal.write("acknowledged", flow, acked_ns)
        if self._samples:
            self._samples.write(self._journal)

    # Sending

    def _await_next(self) -> None:
        if self._due:
            self._loop.at(self._due[0][1], self._start_due)

    def _start_due(self) -> None:
        now_ns = self._loop.clock.now_ns()
        while self._due and self._due[0][1] <= now_ns:
            self._start(*self._due.popleft())
        self._await_next()

    def _start(self, flow: int, scheduled_ns: int, address: str, size_byte: int, mix: int) -> None:
        (_, tos), *later = self._settings.marks[mix]
        to = address, self._settings.doors[str(tos)]
        source_port = self._source_ports.popleft() if self._source_ports else 0
        sock = self._socket(tos, source_port)
        start_ns = self._loop.clock.now_ns()
        if sock.connect_ex(to) == errno.EADDRNOTAVAIL and source_port:
            # Ports have come round, and an old flow to the same place still has this one.
            sock.close()
            sock = self._socket(tos, 0)
            sock.connect_ex(to)
        self.late_ns.append(start_ns - scheduled_ns)
        self._journal.write("start", flow, start_ns)
        sending = Sending(sock, flow, size_byte, later)
        if self._samples:
            self._samples.add((flow,), sock)
        self._loop.watch(sock.fileno(), WRITE, partial(self._send, sending))

    def _socket(self, tos: int, source_port: int) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        mark(sock, tos)
        if source_port:
            come_from(sock, (self._settings.address, source_port))
        return sock

    def _send(self, sending: "Sending", events: int) -> None:
        try:
            if sending.pump():
                self._loop.unwatch(sending.sock.fileno())
                sending.sock.shutdown(socket.SHUT_WR)  # to TCP the same as to close it
                heard = partial(self._acknowledged, sending)
                self._loop.watch_quietly(sending.sock.fileno(), READ | select.EPOLLRDHUP, heard)
        except OSError:  # its end is missing from the records, and that is what happened
            self.broken += 1
            self._forget(sending)

    def _acknowledged(self, sending: "Sending", events: int) -> None:
        """The receiver has closed; unless the connection broke, it has everything."""
        if unacknowledged_byte(sending.sock) <= CLOSING_BYTE:
            self._acked.append((sending.flow, self._quiet_clock.now_ns()))
        self._forget(sending)

    def _forget(self, sending: "Sending") -> None:
        if self._samples:
            self._samples.drop(sending.sock)
        self._loop.unwatch(sending.sock.fileno())
        sending.sock.close()

    # Receiving

    def _accept(self, door: socket.socket, events: int) -> None:
        while True:
            try:
                sock, _ = door.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            receiving = self._arriving[sock.fileno()] = Receiving(sock)
            self._loop.watch(sock.fileno(), READ, partial(self._receive, receiving))

    def _receive(self, receiving: "Receiving", events: int) -> None:
        try:
            done = receiving.pump()
        except OSError:
            self.broken += 1
            self._close(receiving.sock)
            return
        if done:
            self._journal.write("end", receiving.flow, self._loop.clock.now_ns())
            self.received += 1
            self._close(receiving.sock)

    def _note_unfinished(self, receiving: "Receiving") -> None:
        """Write down how far a flow got; what has arrived and was not read counts too."""
        with suppress(OSError):
            receiving.pump()
        if receiving.flow >= 0:
            self._journal.write("unfinished", receiving.flow, received_byte(receiving.sock))

    def _close(self, sock: socket.socket) -> None:
        del self._arriving[sock.fileno()]
        self._loop.unwatch(sock.fileno())
        sock.close()


class Sending:
    """A flow on its way out. `marks`: after so many bytes, counted from its first, another ToS."""

    def __init__(
        self,
        sock: socket.socket,
        flow: int,
        size_byte: int,
        marks: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.sock = sock
        self.flow = flow
        self._header = HEADER.pack(flow, size_byte)
        self._left = size_byte - HEADER.size
        # Each ToS, and what is left when the flow goes on with it. The header is never cut.
        self._marks = deque((min(size_byte - after, self._left), tos) for after, tos in marks)
        if self._marks and self._marks[0][0] > 0:
            # Or the last few bytes before a change would wait for acknowledgements (Nagle).
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pump(self) -> bool:
        """Send as far as the socket takes it; True when all is handed over."""
        try:
            if self._header:
                # MSG_MORE: the header travels in the same segment as what follows it.
                more = socket.MSG_MORE if self._until_mark else 0
                self._header = self._header[self.sock.send(self._header, more) :]
            while self._left and not self._wait_for_mark():
                length = min(self._until_mark, PIECE_BYTE)
                self._left -= os.sendfile(self.sock.fileno(), blank_file(), 0, length)
        except BlockingIOError:
            return False
        return not self._header and not self._left

    @property
    def _until_mark(self) -> int:
        """What is left to carry this mark."""
        return self._left - max(0, self._marks[0][0] if self._marks else 0)

    def _wait_for_mark(self) -> bool:
        """At a change of marks: True while bytes of the old one are unsent; then it is made."""
        while self._marks and self._left == self._marks[0][0]:
            if unsent_byte(self.sock):
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 1)
                return True
            mark(self.sock, self._marks.popleft()[1])
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)  # as usual
        return False


class Receiving:
    """A flow on its way in: first its header, then bytes that nobody needs to look at."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.flow = -1
        self._header = b""
        self._left = 0

    def pump(self) -> bool:
        """Take what has arrived; True when the last byte is in."""
        try:
            while len(self._header) < HEADER.size:
                data = self.sock.recv(HEADER.size - len(self._header))
                if not data:
                    raise ConnectionError("closed before its header")
                self._header += data
                if len(self._header) == HEADER.size:
                    self.flow, size_byte = HEADER.unpack(self._header)
                    self._left = size_byte - HEADER.size
            while self._left:
                length = min(self._left, PIECE_BYTE)
                count = self.sock.recv_into(SCRATCH, length, socket.MSG_TRUNC)
                if count == 0:
                    raise ConnectionError("closed before its last byte")
                self._left -= count
        except BlockingIOError:
            self._left -= drain(self.sock, self._left - 1)
            return False
        return True
