"""The daemons of a live cluster as their master sees them: what is said to whom, and who lives.

A daemon that dies closes its connection, and the master hears of that at once. One that hangs says
nothing: while it has ranks it has to say that it lives, and is taken for dead if it does not.
Whoever was lost is not heard again, and loses its master: it ends if it still can.
"""

import json
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from testbed.cluster.moments import LiveTime
from workloads.connection import Arrived, Connection
from workloads.loop import Loop
from workloads.placed_ranks import ALIVE_NS

Word = dict[str, Any]
SILENT_NS = 3 * ALIVE_NS - ALIVE_NS // 5  # with a look every ALIVE_NS, that is less than 2 s


class Listening:
    """Pure: who has to be heard from, and who has not been for too long."""

    def __init__(self) -> None:
        self._heard_ns: dict[int, int] = {}
        self._looked_ns = 0

    def __len__(self) -> int:
        return len(self._heard_ns)

    def expect(self, hosts: Sequence[int], now_ns: int) -> None:
        if not self._heard_ns:
            self._looked_ns = now_ns
        for host in hosts:
            self._heard_ns.setdefault(host, now_ns)

    def heard(self, host: int, now_ns: int) -> None:
        if host in self._heard_ns:
            self._heard_ns[host] = now_ns

    def look(self, working: set[int], now_ns: int) -> list[int]:
        """Those who work and say nothing. Who looks late has not listened either."""
        slept_ns = max(0, now_ns - self._looked_ns - 2 * ALIVE_NS)
        self._looked_ns = now_ns
        self._heard_ns = {
            host: heard_ns + slept_ns
            for host, heard_ns in self._heard_ns.items()
            if host in working
        }
        return [host for host, ns in self._heard_ns.items() if now_ns - ns > SILENT_NS]


class Daemons:
    """`hear` gets what they say, `lose` who is gone, `working` says who has ranks."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        loop: Loop,
        now: LiveTime,
        hear: Callable[[int, Word], None],
        lose: Callable[[int], None],
        working: Callable[[], set[int]],
    ) -> None:
        self._time, self._hear, self._lose, self._working = now, hear, lose, working
        self._listening = Listening()
        self._lost: set[int] = set()
        self._connections = [
            Connection(sock, loop, partial(self._arrived, host), partial(self._broken, host))
            for host, sock in enumerate(sockets)
        ]

    def say(self, host: int, do: str, **details: Any) -> None:
        content = json.dumps({"do": do, **details}).encode()
        if host not in self._lost:
            self._connections[host].send(0, len(content), memoryview(content))

    def expect(self, hosts: Sequence[int]) -> None:
        """These have ranks from now on, and say that they live."""
        idle = not len(self._listening)
        self._listening.expect(hosts, self._time.now_ns)
        if idle:
            self._time.at(self._time.now_ns + ALIVE_NS, self._look)

    def _look(self) -> None:
        for host in self._listening.look(self._working(), self._time.now_ns):
            self._broken(host, "it says nothing")
        if len(self._listening):
            self._time.at(self._time.now_ns + ALIVE_NS, self._look)

    def _arrived(self, host: int, arrived: Arrived) -> None:
        assert arrived.content is not None
        word = json.loads(bytes(arrived.content))
        if host not in self._lost:
            self._time.moment(partial(self._heard, host, word))

    def _heard(self, host: int, word: Word) -> None:
        self._listening.heard(host, self._time.now_ns)
        self._hear(host, word)

    def _broken(self, host: int, why: str) -> None:
        if host not in self._lost:
            self._lost.add(host)
            self._connections[host].close()
            # Later, but now: a word to it may have been part of what is being done.
            self._time.at(self._time.now_ns, partial(self._lose, host))
