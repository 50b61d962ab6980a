"""Packets of a link as a pcap file, taken quietly: what observes a run must not change it.

The kernel copies the headers of each packet into a ring, with the time at which it left the port or
arrived there. The sampler empties the ring when it is awake anyway, and reads no clock for it. What
it found stays in memory, compressed, until the run is over: to write takes a nanosecond of the
virtual clock, and whoever has something to do in that nanosecond would be late. In the file, time
is experiment time, in nanoseconds. Layouts are those of linux/if_packet.h.
"""

import mmap
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from testbed.processes import in_network

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V2 = 1
ETH_P_ALL = 3
OURS = 1  # the status of a frame that the kernel has filled
FRAME_BYTE, BLOCK_BYTE = 256, 1 << 16  # 66 of a frame are the kernel's, 190 a packet's
FRAMES_A_BLOCK = BLOCK_BYTE // FRAME_BYTE
FEWEST_BLOCKS, MOST_BLOCKS = 16, 1024  # 1 MiB, 64 MiB
FAST = 1  # zlib's level
SMALLEST_MEAN_BYTE = 500  # of packets and their acknowledgements together

_FRAME = struct.Struct("=IIIHHII")  # tpacket2_hdr: status, len, snaplen, mac, net, sec, nsec
_FILE_HEADER = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, FRAME_BYTE, 1)  # ns, Ethernet
_PACKET_HEADER = struct.Struct("=IIII")


@dataclass(frozen=True)
class CaptureConfig:
    pid: int  # of the node at the link's near end
    device: str
    rate_bps: float  # in real time
    file: str


class Capture:
    """A ring in the network namespace of a process, and the file that it is emptied into."""

    def __init__(self, config: CaptureConfig, period_s: float, dilation: float) -> None:
        passing = 2 * config.rate_bps / 8 * period_s / SMALLEST_MEAN_BYTE
        blocks = min(MOST_BLOCKS, max(FEWEST_BLOCKS, int(passing / FRAMES_A_BLOCK) + 1))
        self._dilation = dilation
        self._frames = blocks * FRAMES_A_BLOCK
        self._at = 0
        self._socket = in_network(config.pid, _open)
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        asked = struct.pack("=IIII", BLOCK_BYTE, blocks, FRAME_BYTE, self._frames)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, asked)
        self._ring = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTE)
        self._socket.bind((config.device, ETH_P_ALL))
        self._file = Path(config.file)
        self._kept: list[bytes] = []  # compressed, a piece each time that the ring was emptied
        self._real_minus_monotonic_ns = _clocks_apart_ns()
        self._zero_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file.open("wb") as file:
            file.write(_FILE_HEADER)
            file.writelines(map(zlib.decompress, self._kept))
        self._ring.close()
        self._socket.close()

    def begin(self, epoch_ns: int) -> None:
        """Say which instant of the monotonic clock is time zero; what was before is left out."""
        self._zero_ns = epoch_ns + self._real_minus_monotonic_ns

    def drain(self) -> None:
        piece = bytearray()
        for real_ns, length, content in self._filled():
            time_ns = int((real_ns - self._zero_ns) / self._dilation)
            if time_ns >= 0:
                piece += _PACKET_HEADER.pack(*divmod(time_ns, 10**9), len(content), length)
                piece += content
        self._kept.append(zlib.compress(piece, FAST))

    def _filled(self) -> Iterator[tuple[int, int, bytes]]:
        while True:
            start = self._at * FRAME_BYTE
            status, length, kept, mac, _, sec, nsec = _FRAME.unpack_from(self._ring, start)
            if not status & OURS:
                return
            yield sec * 10**9 + nsec, length, self._ring[start + mac : start + mac + kept]
            self._ring[start : start + 4] = bytes(4)  # the kernel's again
            self._at = (self._at + 1) % self._frames

    def lost(self) -> int:
        """How many packets found the ring full."""
        counted = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        return int(struct.unpack("=II", counted)[1])


def _open() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # bound later: hears nothing yet


def _clocks_apart_ns() -> int:
    """The monotonic clock is read on both sides: on an exact clock, every reading takes as long."""
    before_ns = time.monotonic_ns()
    real_ns = time.time_ns()
    return real_ns - (before_ns + time.monotonic_ns()) // 2


def opened(configs: list[dict[str, Any]], period_s: float, dilation: float) -> list[Capture]:
    return [Capture(CaptureConfig(**config), period_s, dilation) for config in configs]
