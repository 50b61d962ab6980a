"""A world in which a link is a number: so many bytes a nanosecond, one message after another."""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.play import Play, Plays
from workloads.ranks import AnyRank, make_rank
from workloads.world import Message


class ToyNetwork:
    def __init__(self, plan: JobPlan, rate: float = 1.0, cores: int | None = None) -> None:
        """`cores`: all ranks compute on these together."""
        self.plan, self.rate, self.now_ns = plan, rate, 0
        self.rows: list[tuple[str, ...]] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self.free_ns: dict[tuple[int, int], int] = defaultdict(int)  # when a link is free again
        self.carried: dict[tuple[int, int], int] = defaultdict(int)
        self.worlds = [ToyWorld(self, number) for number in range(plan.ranks)]
        shared = Cores(cores, self.at) if cores else None
        self.ranks: list[AnyRank] = [
            make_rank(plan, w.number, w, self, shared) for w in self.worlds
        ]

    def write(self, table: str, *values: object) -> None:
        self.rows.append((table, *values))  # type: ignore[arg-type]

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time_ns, next(self._counter), callback))

    def run(self, until_ns: int = 10**12) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, callback = heapq.heappop(self._heap)
            callback()


class ToyWorld:
    def __init__(self, network: ToyNetwork, number: int) -> None:
        self._network, self.number = network, number
        self.plays = Plays()
        self.bands: dict[int | None, str] = {}
        self.at = network.at

    def now_ns(self) -> int:
        return self._network.now_ns

    def send(self, to: int, byte: int, *, tag: int = 0, content: memoryview | None = None,
             sent: Callable[[], None] | None = None) -> None:  # fmt: skip
        self._carry(to, byte, partial(self._rank(to).message_arrived,
                                      Message(self.number, byte, tag, content)))  # fmt: skip
        if sent is not None:
            self.at(self._network.free_ns[self.number, to], sent)

    def tell(self, to: int, *numbers: int) -> None:
        self.at(self.now_ns(), partial(self._rank(to).told, self.number, numbers))

    def play(self, number: int, byte: int, done: Callable[[], None]) -> None:
        plan = self._network.plan
        worlds = self._network.worlds

        def post(to: int, length: int, content: memoryview | None) -> None:
            self._carry(to, length, partial(worlds[to].plays.arrived, number, self.number))

        play = Play(plan.part(self.number, number), plan.blocks, byte, post)
        self.plays.begin(number, play, done)

    def left_byte(self) -> int:
        return self.plays.left_byte

    def unsent_byte(self, to: int) -> int:
        busy_ns = self._network.free_ns[self.number, to] - self.now_ns()
        return max(0, round(busy_ns * self._network.rate))

    def change_band(self, band: str, to: int | None = None) -> None:
        self.bands[to] = band

    def _rank(self, number: int) -> AnyRank:
        return self._network.ranks[number]

    def _carry(self, to: int, byte: int, arrive: Callable[[], None]) -> None:
        network, link = self._network, (self.number, to)
        network.carried[link] += byte
        network.free_ns[link] = max(network.free_ns[link], network.now_ns) + round(
            byte / network.rate
        )
        network.at(network.free_ns[link], arrive)
