"""A world over sockets: a rank's bytes travel over TCP connections to the others of its job."""

import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial

from basics.bands import tos_of
from workloads.connection import UNSENT_BYTE, Arrived, Connection
from workloads.counting import Numbers, check_sum, sample_numbers
from workloads.job_plan import JobPlan
from workloads.loop import Loop
from workloads.play import Play, Plays
from workloads.world import Hears, Message

Sockets = Mapping[int, socket.socket]  # by the other's rank


class SocketWorld:
    """`World` for one rank. `fail` hears why its job cannot go on."""

    def __init__(
        self,
        plan: JobPlan,
        number: int,
        loop: Loop,
        data: Sockets,
        words: Sockets,
        fail: Callable[[str], None],
    ) -> None:
        self.rank: Hears  # set by whoever makes it
        self._plan = plan
        self._number = number
        self._loop = loop
        self._fail = fail
        self._closed = False
        arrived = self._message_arrived if plan.by_message else self._step_arrived
        self._data = {
            other: self._connected(sock, other, partial(arrived, other))
            for other, sock in data.items()
        }
        self._words = {
            other: self._connected(sock, other, partial(self._told, other))
            for other, sock in words.items()
        }
        if plan.control_band is not None:
            for connection in self._words.values():
                connection.mark(tos_of(plan.control_band))
        self._parts = (
            [] if plan.by_message else [plan.part(number, at) for at in range(plan.phases)]
        )
        self._summed: dict[int, Numbers] = {}  # in test mode, what a server has to send back
        self._plays = Plays()
        if plan.parted:
            for connection in self._data.values():
                connection.bound_unsent(UNSENT_BYTE)

    def _connected(
        self, sock: socket.socket, other: int, hear: Callable[[Arrived], None]
    ) -> Connection:
        shard = other - self._plan.workers
        name = f"worker {other}" if shard < 0 else f"server {shard}"
        if shard >= self._plan.servers > 0:
            name = f"aggregator {shard - self._plan.servers}"
        where = sock.getpeername()[:1]

        def broken(why: str) -> None:
            self._fail(f"lost {' '.join([name, *(f'({address})' for address in where)])}: {why}")

        return Connection(sock, self._loop, hear, broken)

    def close(self) -> None:
        """Nothing arrives any more, and nobody is woken."""
        self._closed = True
        for connection in (*self._data.values(), *self._words.values()):
            connection.close()

    def now_ns(self) -> int:
        return self._loop.clock.now_ns()

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        self._loop.at(time_ns, partial(self._wake, callback))

    def _wake(self, callback: Callable[[], None]) -> None:
        if not self._closed:
            callback()

    def send(
        self,
        to: int,
        byte: int,
        *,
        tag: int = 0,
        content: memoryview | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        self._data[to].send(tag, byte, content, sent)

    def tell(self, to: int, *numbers: int) -> None:
        content = struct.pack(f"!{len(numbers)}I", *numbers)
        self._words[to].send(0, len(content), memoryview(content))

    def play(self, number: int, byte: int, done: Callable[[], None]) -> None:
        plan = self._plan
        numbers = self._numbers(number, byte) if plan.check else None

        def post(to: int, length: int, content: memoryview | None) -> None:
            self._data[to].send(number, length, content)

        assert self._parts, "servers that answer messages are not a collective"
        part = self._parts[number % plan.phases]

        def checked() -> None:
            if numbers is not None:
                self._check(number, numbers)
            done()

        self._plays.begin(number, Play(part, plan.blocks, byte, post, numbers), checked)

    def _numbers(self, number: int, byte: int) -> Numbers:
        """What a rank begins a collective with: a worker its gradient, a server what it has."""
        works, pulls = self._number < self._plan.workers, number % self._plan.phases
        if self._plan.serves(self._number) and pulls:
            return self._summed.pop(number - 1)
        return sample_numbers(max(1, byte // 4), self._number + 1 if works and not pulls else 0)

    def _check(self, number: int, numbers: Numbers) -> None:
        """All-reduces and pulls leave the sum with every worker, pushes with the servers."""
        ends = number % self._plan.phases == self._plan.phases - 1
        if self._number < self._plan.workers and ends:
            check_sum(numbers, self._plan.workers)
        elif self._plan.serves(self._number) and not ends:
            self._summed[number] = numbers

    def left_byte(self) -> int:
        return self._plays.left_byte

    def unsent_byte(self, to: int) -> int:
        return self._data[to].outstanding_byte()

    def change_band(self, band: str, to: int | None = None) -> None:
        for connection in self._data.values() if to is None else [self._data[to]]:
            connection.mark(tos_of(band))

    def _message_arrived(self, source: int, arrived: Arrived) -> None:
        tag, byte, content = arrived
        self.rank.message_arrived(Message(source, byte, tag, content))

    def _step_arrived(self, source: int, arrived: Arrived) -> None:
        self._plays.arrived(arrived.tag, source, arrived.content)

    def _told(self, source: int, arrived: Arrived) -> None:
        assert arrived.content is not None
        self.rank.told(source, struct.unpack(f"!{arrived.byte // 4}I", arrived.content))
