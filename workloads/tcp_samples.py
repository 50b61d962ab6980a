"""What TCP knows of this task's connections (TCP_INFO), sampled while the run goes on.

The sampled run is the same as one that is not: it is watched quietly (workloads/loop.py), no other
process is there for it, and nothing is written before the run is over. It stays small: a connection
with nothing under way has no row, and a task that has MOST_ROWS of them forgets every second
instant and goes on with twice the interval.
"""

import os
import socket
import struct
from array import array

from workloads.journal import Journal
from workloads.loop import READ, Loop, QuietClock, Timer

MOST_ROWS = 32_768
# Off the grid of milliseconds on which flows and iterations start: those first.
OFF_GRID_NS = 337
UNLIMITED = 2**64 - 1
# Of struct tcp_info, up to tcpi_snd_wnd, which Linux has since 5.4.
INFO = struct.Struct("=16x I 4x IIII 28x I 8x I 16x I Q 8x Q 16x I 52x QQ 12x I")
assert INFO.size == 232

Key = tuple[str | int, ...]  # whose it is, as the journal has it


class TcpSamples:
    """`table`: where the rows go, each headed by its time and the key of its connection."""

    def __init__(self, loop: Loop, table: str, every_ns: int) -> None:
        self._loop = loop
        self._table = table
        self._clock = QuietClock(loop.clock)
        self._dilation = loop.clock.dilation
        self._connections: dict[socket.socket, int] = {}  # whose key
        self._keys: list[Key] = []
        self._rows = array("q")
        self._ticks = 0
        self._stride = 1
        self._timer = Timer()
        loop.watch_quietly(self._timer.descriptor, READ, self._tick)
        first_ns = loop.clock.real_ns(every_ns) + OFF_GRID_NS
        self._timer.set(first_ns, round(every_ns * self._dilation))

    def add(self, key: Key, sock: socket.socket) -> None:
        self._connections[sock] = len(self._keys)
        self._keys.append(key)

    def drop(self, sock: socket.socket) -> None:
        self._connections.pop(sock, None)

    def write(self, journal: Journal) -> None:
        for at in range(0, len(self._rows), WIDTH):
            _, time_ns, whose, *numbers = self._rows[at : at + WIDTH]
            pacing_bps = numbers.pop()
            known = None if pacing_bps < 0 else pacing_bps
            journal.write(self._table, time_ns, *self._keys[whose], *numbers, known)

    def _tick(self, events: int) -> None:
        self._ticks += int.from_bytes(os.read(self._timer.descriptor, 8), "little")
        if self._ticks % self._stride:
            return
        time_ns = self._clock.now_ns()
        for sock, whose in self._connections.items():
            found = numbers(sock, self._dilation)
            if found is not None:
                self._rows.extend((self._ticks, time_ns, whose, *found))
        while len(self._rows) > MOST_ROWS * WIDTH:
            self._thin()

    def _thin(self) -> None:
        self._stride *= 2
        kept = array("q")
        for at in range(0, len(self._rows), WIDTH):
            if self._rows[at] % self._stride == 0:
                kept.extend(self._rows[at : at + WIDTH])
        self._rows = kept


NUMBERS = 9
WIDTH = 3 + NUMBERS


def numbers(sock: socket.socket, dilation: float) -> tuple[int, ...] | None:
    """acked, sacked, in flight, unsent, cwnd, window (bytes), srtt, retransmits, pacing (bit/s).

    None if nothing is under way, or only the handshake. In flight is as TCP counts it: without
    what has arrived out of order and what it takes for lost. Pacing is below zero if there is none.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
    except OSError:  # closed, by a job that broke
        return None
    mss, unacked, sacked, lost, resent, srtt_us, cwnd, retransmits, pacing, *rest = INFO.unpack(
        info.ljust(INFO.size, b"\0")
    )
    acked, unsent, sent, again, window = rest
    if not srtt_us or not (unacked or unsent):
        return None
    in_flight = max(0, sent - again - acked - (sacked + lost - resent) * mss)
    srtt_ns = round(srtt_us * 1000 / dilation)
    paced = -1 if pacing == UNLIMITED else round(min(pacing, 2**50) * 8 * dilation)
    windows = unsent, cwnd * mss, window
    return acked, sacked * mss, in_flight, *windows, srtt_ns, retransmits, paced
