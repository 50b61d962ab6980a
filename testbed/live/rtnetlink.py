"""What the kernel holds and has counted at a port, asked over rtnetlink.

`tc` of today's distributions cannot print htb classes as JSON, and a process per port ten times a
second would disturb what it measures; pyroute2 spends 0.4 ms on a class. So: the two dumps that
Giveway needs, by hand. Field layouts are those of linux/rtnetlink.h and linux/pkt_sched.h.
"""

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from testbed.processes import in_network

NETLINK_ROUTE = 0
RTM_GETQDISC, RTM_GETTCLASS = 38, 42
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_PKT64 = 1, 3, 8
TCA_HTB_PARMS, TCA_HTB_RATE64, TCA_HTB_CEIL64 = 1, 6, 7
RECEIVE_BYTE = 1 << 18

_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_TC = struct.Struct("=BBHiIII")  # tcmsg
_RATE = struct.Struct("=BBHhHI")  # tc_ratespec


@dataclass(frozen=True)
class TrafficClass:
    """A class of a qdisc: what was configured and what has passed."""

    handle: str
    parent: str
    leaf: str
    rate_bps: int
    ceil_bps: int
    prio: int
    sent_byte: int
    drops: int


@dataclass(frozen=True)
class Qdisc:
    handle: str
    parent: str
    kind: str
    options: bytes
    drops: int

    @property
    def limit(self) -> int:
        """Of a pfifo in packets, of a bfifo in bytes."""
        return int(struct.unpack_from("=I", self.options)[0])


class Namespace:
    """A socket that asks the kernel about one network namespace."""

    def __init__(self, pid: int) -> None:
        self._socket, self.devices = in_network(pid, _open)  # devices: name -> index

    def classes(self, device: int) -> dict[str, TrafficClass]:
        """The classes of an interface (by index), by handle; only htb's have rates."""
        found = {}
        for message, attributes in self._dump(RTM_GETTCLASS, device):
            options = dict(_attributes(attributes.get(TCA_OPTIONS, b"")))
            rate = ceil = prio = 0
            if TCA_HTB_PARMS in options:
                parms = options[TCA_HTB_PARMS]
                rate, ceil = (_RATE.unpack_from(parms, at)[5] for at in (0, _RATE.size))
                prio = struct.unpack_from("=5I", parms, 2 * _RATE.size)[4]
            sent, drops = _statistics(attributes)
            handle = _handle(message[4])
            found[handle] = TrafficClass(
                handle=handle,
                parent=_handle(message[5]),
                leaf=_handle(message[6]),
                rate_bps=8 * _wide(options.get(TCA_HTB_RATE64), rate),
                ceil_bps=8 * _wide(options.get(TCA_HTB_CEIL64), ceil),
                prio=prio,
                sent_byte=sent,
                drops=drops,
            )
        return found

    def qdiscs(self) -> dict[int, dict[str, Qdisc]]:
        """The queueing disciplines of every interface (by index), by handle.

        The kernel dumps them all, whichever interface is asked for.
        """
        found: dict[int, dict[str, Qdisc]] = {}
        for message, attributes in self._dump(RTM_GETQDISC, 0):
            handle = _handle(message[4])
            found.setdefault(message[3], {})[handle] = Qdisc(
                handle,
                _handle(message[5]),
                attributes[TCA_KIND].rstrip(b"\0").decode(),
                attributes.get(TCA_OPTIONS, b""),
                _statistics(attributes)[1],
            )
        return found

    def _dump(self, kind: int, device: int) -> Iterator[tuple[tuple[int, ...], dict[int, bytes]]]:
        body = _TC.pack(0, 0, 0, device, 0, 0, 0)
        header = _HEADER.pack(_HEADER.size + len(body), kind, NLM_F_REQUEST_DUMP, 1, 0)
        self._socket.send(header + body)
        while True:
            data = self._socket.recv(RECEIVE_BYTE)
            at = 0
            while at < len(data):
                length, found, _, _, _ = _HEADER.unpack_from(data, at)
                if found == NLMSG_DONE:
                    return
                if found == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data, at + _HEADER.size)
                    raise OSError(-code, os.strerror(-code))
                start = at + _HEADER.size
                attributes = dict(_attributes(data[start + _TC.size : at + length]))
                yield _TC.unpack_from(data, start), attributes
                at += (length + 3) & ~3

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open() -> tuple[socket.socket, dict[str, int]]:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
    made.settimeout(5)
    made.bind((0, 0))
    return made, {name: index for index, name in socket.if_nameindex()}


def device_indexes(pid: int) -> dict[str, int]:
    """Interface names and indexes in a process's network namespace."""
    with Namespace(pid) as namespace:
        return namespace.devices


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def _statistics(attributes: dict[int, bytes]) -> tuple[int, int]:
    """Bytes sent and packets dropped."""
    stats = dict(_attributes(attributes.get(TCA_STATS2, b"")))
    sent = struct.unpack_from("=Q", stats[TCA_STATS_BASIC])[0] if TCA_STATS_BASIC in stats else 0
    drops = struct.unpack_from("=3I", stats[TCA_STATS_QUEUE])[2] if TCA_STATS_QUEUE in stats else 0
    return sent, drops


def _wide(value: bytes | None, narrow: int) -> int:
    """Rates of 2^32 byte/s and more travel in an attribute of their own."""
    return int(struct.unpack("=Q", value)[0]) if value else narrow


def _handle(number: int) -> str:
    return f"{number >> 16:x}:{number & 0xFFFF:x}"
