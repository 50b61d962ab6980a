"""Training jobs in a simulation: the same ranks as on a live network, their bytes calculated.

A job has a stream for everybody who sends bytes to somebody, and one each way between rank 0 and
those who tell it things. What stays in a host (a worker beside its own server) takes no time.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from testbed.fluid.simulation import Simulation
from testbed.fluid.state import MESSAGES
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from testbed.run_folder import Row
from workloads.connection import UNSENT_BYTE
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.play import Play, Plays
from workloads.rank import Rank
from workloads.ranks import AnyRank, make_rank
from workloads.world import Message

Pair = tuple[int, int]  # who sends, to whom: ranks
At = Callable[[float, Callable[[], object]], None]  # call me back at this time
MOST_AT_ONCE = MESSAGES // 2  # messages in a stream; what follows waits outside


class Records:
    """What a run's ranks write, table by table, in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = defaultdict(list)

    def write(self, table: str, *values: str | float | None) -> None:
        self.tables[table].append(values)


class JobStreams:
    """Which streams a job has, numbered from `first` on: bytes there and back, then words."""

    def __init__(self, plan: JobPlan, hosts: Sequence[int], port: int, first: int) -> None:
        self.plan = plan
        self.hosts = hosts
        there = plan.data_pairs
        back = [(b, a) for a, b in there if (b, a) in plan.edges]
        told = plan.control_pairs
        heard = [(b, a) for a, b in told]
        level = plan.priority
        words = plan.bands.index(plan.control_band) if plan.control_band else level
        far = [(a, b) for a, b in there + back if hosts[a] != hosts[b]]
        spoken = [(a, b) for a, b in told + heard if hosts[a] != hosts[b]]
        self.ways = [Way(hosts[a], hosts[b], port, level) for a, b in far]
        self.ways += [Way(hosts[a], hosts[b], port + 1, words) for a, b in spoken]
        self.data = {pair: first + at for at, pair in enumerate(far)}
        first += len(self.data)
        self.words = {pair: first + at for at, pair in enumerate(spoken)}

    @property
    def by_message(self) -> bool:
        """Whether messages are played one by one, as over sockets; else compiled code plays steps.

        So it is with several transfers at once; where servers get sums, also if ranks are on one
        host, or send each other both gradients and models: a stream has one list.
        """
        plan = self.plan
        if plan.reduce is None:
            near = len(self.data) < len(plan.edges)  # two workers of a cluster's job on one host
            return plan.by_message or not plan.one_by_one or near
        return len(self.data) < len(plan.edges) or plan.aggregating.crosses

    def step_lists(self) -> list[StepList]:
        """What the simulation plays step by step; rings have a short way."""
        plan = self.plan
        if self.by_message or (plan.reduce is None and plan.collective.ring):
            return []
        return [
            StepList([plan.part(rank, at) for rank in range(plan.ranks)], plan.blocks, self.data)
            for at in range(plan.phases)
        ]


def on_hosts(streams: JobStreams, cores: Mapping[int, Cores]) -> dict[int, Cores]:
    """Of each rank, those of its host."""
    return {number: cores[host] for number, host in enumerate(streams.hosts)}


class SimulatedJob:
    """The ranks of a job, and their way into the simulation; `players`, list by list: see StepList.

    `cores`: of each worker, where they are shared. `at`: the simulation's, unless somebody wants to
    be between.
    """

    def __init__(
        self,
        streams: JobStreams,
        simulation: Simulation,
        records: Records,
        players: Sequence[Sequence[int]] = (),
        cores: Mapping[int, Cores] | None = None,
        at: At | None = None,
    ) -> None:
        self.plan = streams.plan
        self.streams = streams
        self.simulation = simulation
        self.at = at or simulation.at
        self.players = players
        self._lines: dict[Pair, Line] = {}
        self.outgoing: dict[int, list[int]] = defaultdict(list)  # streams, by who sends
        for (source, _), stream in streams.data.items():
            self.outgoing[source].append(stream)
        plan = self.plan
        self.by_message = streams.by_message
        self.worlds = [SimulatedWorld(self, number) for number in range(plan.ranks)]
        self.ranks: list[AnyRank] = [
            make_rank(plan, number, world, records, cores.get(number) if cores else None)
            for number, world in enumerate(self.worlds)
        ]
        if self.by_message:
            for (source, to), stream in streams.data.items():
                self._lines[source, to] = Line(simulation, stream, self._hearer(source, to))
        elif not players:
            simulation.make_ring([streams.data[pair] for pair in plan.edges])
        for rank in self.workers:
            self.at(plan.start_ns, rank.begin)

    @property
    def workers(self) -> list[Rank]:
        return [rank for rank in self.ranks if isinstance(rank, Rank)]

    def post(
        self, source: int, to: int, byte: int, tag: int, sent: Callable[[], None] | None = None
    ) -> None:
        line = self._lines.get((source, to))
        if line is not None:
            line.post(byte, tag, sent)
            return
        now_ns = self.simulation.now_ns
        if sent is not None:
            self.at(now_ns, sent)
        self.at(now_ns, partial(self._hearer(source, to), byte, tag))

    def waiting_byte(self, pair: Pair) -> int:
        """What has not even reached the stream."""
        line = self._lines.get(pair)
        return line.waiting_byte if line is not None else 0

    def _hearer(self, source: int, to: int) -> Callable[[int, int], None]:
        """Who hears of bytes and tag of a message when it is there."""
        if not self.plan.by_message:
            plays = self.worlds[to].plays
            return lambda byte, tag: plays.arrived(tag, source)
        arrived = self.ranks[to].message_arrived
        return lambda byte, tag: arrived(Message(source, byte, tag))


class Line:
    """Messages from one rank to another: at most so many in their stream, the rest before it.

    A message is out of its sender's hands when what has not arrived would fit into TCP's window
    and the little that the kernel keeps unsent, as with sockets.
    """

    def __init__(
        self, simulation: Simulation, stream: int, hear: Callable[[int, int], None]
    ) -> None:
        self._simulation = simulation
        self._stream = stream
        self._hear = hear
        self._coming: deque[tuple[int, int]] = deque()  # bytes, tag
        self._waiting: deque[tuple[int, int]] = deque()
        self._held: deque[tuple[int, Callable[[], None]]] = deque()  # bytes up to its end, who
        self._posted_byte = 0  # ever
        self._arrived_byte = 0
        self.waiting_byte = 0
        simulation.on_arrival[stream] = self._arrived

    def post(self, byte: int, tag: int, sent: Callable[[], None] | None) -> None:
        self._posted_byte += byte
        if len(self._coming) < MOST_AT_ONCE:
            self._coming.append((byte, tag))
            self._simulation.post(self._stream, byte)
        else:
            self._waiting.append((byte, tag))
            self.waiting_byte += byte
        if sent is None:
            return
        if self._held or self._posted_byte - self._arrived_byte > self._room_byte():
            self._held.append((self._posted_byte, sent))
        else:
            sent()

    def _room_byte(self) -> float:
        return UNSENT_BYTE + self._simulation.window_byte(self._stream)

    def _arrived(self) -> None:
        byte, tag = self._coming.popleft()
        self._arrived_byte += byte
        if self._waiting:
            following = self._waiting.popleft()
            self.waiting_byte -= following[0]
            self._coming.append(following)
            self._simulation.post(self._stream, following[0])
        if self._held:
            room_byte = self._arrived_byte + self._room_byte()
            while self._held and self._held[0][0] <= room_byte:
                self._held.popleft()[1]()
        self._hear(byte, tag)


class SimulatedWorld:
    """A `World` for one rank."""

    def __init__(self, job: SimulatedJob, number: int) -> None:
        self._job = job
        self._number = number
        self._simulation = job.simulation
        self._data = job.streams.data
        self._outgoing = job.outgoing[number]
        self.at = job.at
        self.plays = Plays()

    def now_ns(self) -> int:
        return self._simulation.now_ns

    def send(
        self,
        to: int,
        byte: int,
        *,
        tag: int = 0,
        content: memoryview | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        self._job.post(self._number, to, byte, tag, sent)

    def tell(self, to: int, *numbers: int) -> None:
        stream = self._job.streams.words.get((self._number, to))
        delay_ns = 0 if stream is None else self._simulation.message_delay_ns(stream)
        hear = partial(self._job.ranks[to].told, self._number, numbers)
        self.at(self.now_ns() + delay_ns, hear)

    def play(self, number: int, byte: int, done: Callable[[], None]) -> None:
        plan = self._job.plan
        if self._job.by_message:
            post = partial(self._post_step, number)
            part = plan.part(self._number, number)
            self.plays.begin(number, Play(part, plan.blocks, byte, post), done)
        elif self._job.players:
            player = self._job.players[number % plan.phases][self._number]
            self._simulation.on_steps_done[player] = done
            self._simulation.begin_steps(player, byte)
        else:
            [stream] = self._outgoing
            self._simulation.on_ring_done[stream] = done
            self._simulation.begin_ring(stream, byte / plan.workers)

    def _post_step(self, number: int, to: int, byte: int, content: memoryview | None) -> None:
        self._job.post(self._number, to, byte, number)

    def left_byte(self) -> int:
        if self._job.by_message:
            return self.plays.left_byte
        if self._job.players:
            mine = [players[self._number] for players in self._job.players]
            return sum(self._simulation.steps_left_byte(player) for player in mine)
        [stream] = self._outgoing
        return self._simulation.ring_left_byte(stream)

    def unsent_byte(self, to: int) -> int:
        pair = self._number, to
        if pair not in self._data:
            return 0
        unsent = self._simulation.unsent_byte([self._data[pair]])
        return round(unsent) + self._job.waiting_byte(pair)

    def change_band(self, band: str, to: int | None = None) -> None:
        level = self._job.plan.bands.index(band)
        near = to is not None and (self._number, to) not in self._data
        one = [] if near or to is None else [self._data[self._number, to]]
        for stream in self._outgoing if to is None else one:
            self._simulation.change_level(stream, level)
