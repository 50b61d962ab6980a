"""One run as a simulation: builds its arrays, lets time pass, keeps the timers of training.

Compiled code moves bytes (`core.advance`); what is decided at a moment, by a training worker or a
policy, is a callback here, in a heap of (time, counter, callback).
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.base import LinkPolicy
from testbed.errors import RunFailed
from testbed.fluid import core, state, streams, tcp
from testbed.fluid.heap import schedule
from topologies import Topology
from topologies.routes import TCP, Routes, addresses, five_tuple_key
from workloads.schedule import Schedule

FLOW_PORT = 6000
FIRST_EPHEMERAL_PORT = 32768
EPHEMERAL_PORTS = 28232
FIRST_ROOM = 1024  # flows at once, before the arrays grow

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Way:
    """A connection of a training job that the simulation is to have."""

    src: int
    dst: int
    port: int
    level: int
    levels: tuple[int, ...] | None = None  # at each link, where they differ


class Simulation:
    def __init__(
        self,
        topology: Topology,
        policy: LinkPolicy,
        flows: Schedule,
        flow_levels: Sequence[int],
        ways: Sequence[Way],
        queue_ns: int | None = None,
    ) -> None:
        """`flow_levels`: of each mix. `queue_ns`: a queue's limit where TCP keeps it shorter."""
        self.topology = topology
        self._bands = len(policy.bands)
        self._routes = Routes(topology)
        self._link_delay_ns = np.repeat([float(link.cable.delay_ns) for link in topology.links], 2)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self.on_ring_done: dict[int, Callable[[], None]] = {}
        self.on_arrival: dict[int, Callable[[], None]] = {}
        count = len(ways)
        schedule = self._schedule(flows, np.asarray(flow_levels, dtype=np.int64))
        room = 2 * count + min(len(flows), FIRST_ROOM)
        rate_bps = np.repeat([float(link.cable.rate_bps) for link in topology.links], 2)
        capacity = rate_bps / 8e9 * tcp.PAYLOAD / tcp.FRAME
        limit = np.repeat([float(link.cable.queue_packets) for link in topology.links], 2)
        limit *= tcp.PAYLOAD
        if queue_ns is not None:
            limit = np.minimum(limit, capacity * queue_ns)
        floors = [policy.sharing.floors.get(band, 0.0) for band in policy.bands]
        self.state = state.State(
            c=state.connections(room),
            w=state.links(capacity, limit),
            s=state.streams(count),
            f=schedule,
            q=state.queue(room + count),
            x=state.scratch(room, len(capacity), count, floors),
        )
        self._add_streams(ways)
        counts = self.state.x.counts
        counts[state.ISOLATES] = policy.sharing.queue_per_flow
        counts[state.HAS_FLOORS] = any(floors)
        self._free(2 * count, room)

    # Time

    @property
    def now_ns(self) -> int:
        return round(self.state.x.clock.item())

    def at(self, time_ns: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time_ns, next(self._counter), callback))

    def run(self, until_ns: int) -> None:
        timers = self._timers
        while True:
            due_ns = min(timers[0][0], until_ns) if timers else until_ns
            outcome = core.advance(self.state, float(due_ns))
            if outcome == core.TOLD:
                self._pass_on()
            elif outcome == core.NO_ROOM:
                self.grow()
            elif outcome == core.STUCK:
                raise RunFailed(
                    f"the simulation does not get past {self.now_ns} ns: this is an error in "
                    "testbed/fluid; please report it with the experiment file"
                )
            else:
                if due_ns >= until_ns:
                    return
                while timers and timers[0][0] <= due_ns:
                    heapq.heappop(timers)[2]()

    def _pass_on(self) -> None:
        x = self.state.x
        count = int(x.counts[state.N_TOLD])
        told = [(int(x.told[at]), int(x.told_kind[at])) for at in range(count)]
        x.counts[state.N_TOLD] = 0
        for stream, kind in told:
            (self.on_ring_done if kind == streams.RING_DONE else self.on_arrival)[stream]()

    # What training uses

    def make_ring(self, ring: Sequence[int]) -> None:
        """These streams are a ring: each one's receiver sends on the next one."""
        s = self.state.s
        for at, stream in enumerate(ring):
            s["next"][stream] = ring[(at + 1) % len(ring)]
            self.state.c["in_ring"][[stream, stream + len(s)]] = 1  # and its feeder
            s["steps"][stream] = 2 * (len(ring) - 1)

    def begin_ring(self, stream: int, chunk_byte: float) -> None:
        streams.begin_ring(self.state, stream, chunk_byte)

    def post(self, stream: int, size_byte: float) -> None:
        if not streams.post(self.state, stream, size_byte):
            raise OverflowError(f"more than {state.MESSAGES} messages wait on one connection")

    def change_level(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level, what it has waiting included."""
        streams.change_level(self.state, stream, level)

    def ring_left_byte(self, stream: int) -> int:
        """Of a ring's transfer under way: what has not arrived here yet, as bytes of gradient."""
        s = self.state.s
        if not s["active"][stream]:
            return 0
        steps = int(s["steps"][stream])
        before = int(s["arrived"][stream] - s["earlier"][stream])
        return round(s["chunk"][stream] * (steps - before) * (steps / 2 + 1) / steps)

    def change_first_level(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level at its first link."""
        streams.change_first_level(self.state, stream, level)

    def unsent_byte(self, streams: slice) -> float:
        """What has not left its bottleneck yet of the messages handed to these streams."""
        some = self.state.c[streams]
        sent = some["rate"] * (self.state.x.clock[0] - some["touched"])
        return float((some["left"] - sent + some["queued"]).sum())

    def message_delay_ns(self, stream: int) -> float:
        """How long a small message takes on this stream's way now."""
        return float(self.state.c["delay"][stream] + streams.path_wait(self.state, stream))

    # What records need

    def flow_ends_ns(self) -> npt.NDArray[np.float64]:
        """When the last byte of each flow was there; infinite if it was not."""
        return self.state.f["end"]

    def carried_byte(self) -> npt.NDArray[np.float64]:
        """Bytes on the wire so far, headers included, by link and band."""
        found = core.carried_now(self.state)[:, : self._bands]
        return found * (tcp.FRAME / tcp.PAYLOAD)

    # Building

    def _ways(
        self, src: Integers, dst: Integers, src_port: Integers, dst_port: int | Integers
    ) -> tuple[Integers, Integers, Integers, npt.NDArray[np.float64]]:
        """Links there and back, how many, and the time that they take when nothing waits."""
        ports = np.broadcast_to(dst_port, src_port.shape)
        there = five_tuple_key(addresses(src), addresses(dst), src_port, ports, TCP)
        back = five_tuple_key(addresses(dst), addresses(src), ports, src_port, TCP)
        path = np.full((2, len(src), state.HOPS), -1)
        path[0, :, : self._routes.width] = self._routes.paths(src, dst, there)
        path[1, :, : self._routes.width] = self._routes.paths(dst, src, back)
        hops = (path[0] >= 0).sum(axis=1)
        delay = np.where(path[0] >= 0, self._link_delay_ns[path[0]], 0.0).sum(axis=1)
        return path[0], path[1], hops, delay

    def _schedule(self, flows: Schedule, levels: Integers) -> state.Table:
        ports = FIRST_EPHEMERAL_PORT + flows.flow % EPHEMERAL_PORTS
        path, back, hops, delay = self._ways(flows.src, flows.dst, ports, FLOW_PORT)
        level = levels[flows.mix] if len(levels) else flows.mix
        made = state.schedule(len(flows))
        made["start"], made["bytes"] = flows.start_ns, flows.size_byte
        made["path"], made["back"], made["hops"], made["delay"] = path, back, hops, delay
        made["level"], made["band"] = level[:, None], level
        return made

    def _add_streams(self, ways: Sequence[Way]) -> None:
        if not ways:
            return
        c, count = self.state.c, len(ways)
        src, dst, port = (
            np.array([getattr(way, name) for way in ways], dtype=np.int64)
            for name in ("src", "dst", "port")
        )
        source_port = FIRST_EPHEMERAL_PORT + np.arange(count) % EPHEMERAL_PORTS
        path, back, hops, delay = self._ways(src, dst, source_port, port)
        mine = c[:count]
        mine["path"], mine["back"], mine["hops"], mine["delay"] = path, back, hops, delay
        for at, way in enumerate(ways):
            mine["level"][at] = way.level
            if way.levels is not None:
                mine["level"][at, : len(way.levels)] = way.levels
            mine["band"][at] = way.level
        mine["window"], mine["threshold"] = tcp.FIRST_WINDOW, np.inf
        mine["least_rtt"], mine["bottleneck"] = 2 * delay, -1
        mine["ack"] = tcp.ACK_SHARE
        feeders = c[count : 2 * count]
        mine["partner"], feeders["partner"] = np.arange(count, 2 * count), np.arange(count)
        feeders["hops"], feeders["band"] = 1, mine["band"]

    def _free(self, low: int, high: int) -> None:
        x = self.state.x
        count = int(x.counts[state.N_FREE])
        places = np.arange(high - 1, low - 1, -1)  # the lowest is taken first
        x.free[count : count + len(places)] = places
        x.counts[state.N_FREE] += len(places)

    def grow(self) -> None:
        """Room for twice as many flows; numbers of the streams' events move up with it."""
        old = self.state
        room, count = len(old.c), len(old.s)
        larger = 2 * room
        c = state.connections(larger)
        c[:room] = old.c
        x = state.scratch(larger, len(old.w), count, old.x.floors.tolist())
        for new_column, column in zip(x, old.x, strict=True):
            new_column[: len(column)] = column
        q = state.queue(larger + count)
        x.counts[state.N_HEAP] = 0
        self.state = old._replace(c=c, x=x, q=q)
        for one in range(room + count):
            if old.q["place"][one] >= 0:
                place = one if one < room else one - room + larger
                schedule(q, x, place, float(old.q["time"][one]))
        self._free(room, larger)
