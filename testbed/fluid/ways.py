"""Which links the connections of a simulation pass: flows, and streams of training jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from basics.errors import RunFailed
from testbed.fluid import state
from testbed.fluid.paths import Integers, Paths
from testbed.fluid.transport import open_windows
from topologies import Topology
from workloads.schedule import Schedule

FLOW_PORT = 6000
FIRST_EPHEMERAL_PORT = 32768
EPHEMERAL_PORTS = 28232


@dataclass(frozen=True)
class Way:
    """A connection of a training job that the simulation is to have."""

    src: int
    dst: int
    port: int
    level: int
    levels: tuple[int, ...] | None = None  # at each link, where they differ


class Ways:
    def __init__(self, topology: Topology, seed: int) -> None:
        """`seed` decides source ports, and so the ways where there are several."""
        self._paths = Paths(topology)
        self._first_source = seed % EPHEMERAL_PORTS

    def source_ports(self, numbers: Integers) -> Integers:
        return FIRST_EPHEMERAL_PORT + (numbers + self._first_source) % EPHEMERAL_PORTS

    def of_flows(self, flows: Schedule, levels: Integers) -> state.Table:
        """The schedule's table; `levels`: of each mix."""
        ports = self.source_ports(flows.flow)
        path, back, hops, delay = self._paths.there_and_back(flows.src, flows.dst, ports, FLOW_PORT)
        level = levels[flows.mix] if len(levels) else flows.mix
        made = state.schedule(len(flows))
        made["start"], made["bytes"] = flows.start_ns, flows.size_byte
        made["path"], made["back"], made["hops"], made["delay"] = path, back, hops, delay
        made["level"], made["band"] = level[:, None], level
        return made

    def lay_first(self, made: state.State, ways: Sequence[Way]) -> None:
        """The streams of a simulation, each with its feeder."""
        count = len(ways)
        mine, feeders = made.c[:count], made.c[count : 2 * count]
        self._lay(np.arange(count), ways, mine, feeders)
        open_windows(mine, made.x.counts)
        mine["who"] = np.arange(count)
        mine["partner"], feeders["partner"] = np.arange(count, 2 * count), np.arange(count)

    def lay_again(self, made: state.State, first: int, ways: Sequence[Way]) -> None:
        """The streams from this one on, which are idle, go other ways: as new connections."""
        c, s, count = made.c, made.s, len(ways)
        own = slice(first, first + count)
        feeding = slice(len(s) + first, len(s) + first + count)
        busy = c["phase"][own].any() or c["phase"][feeding].any() or s["arriving"][own].any()
        if busy:  # none of them is IDLE, or something is still to arrive
            raise RunFailed("a training job was moved in the middle of a transfer: report this")
        s[own] = state.streams(count)
        for rows, partner in ((own, feeding), (feeding, own)):
            fresh = state.connections(count)
            fresh["who"], fresh["draws"] = c["who"][rows], c["draws"][rows]
            fresh["partner"] = np.arange(partner.start, partner.stop)
            c[rows] = fresh
        self._lay(np.arange(first, first + count), ways, c[own], c[feeding])
        open_windows(c[own], made.x.counts)

    def paths_of(self, numbers: Integers, ways: Sequence[Way]) -> list[list[int]]:
        """The links that streams of these numbers would pass on such ways."""
        ends = np.array([(way.src, way.dst, way.port) for way in ways]).reshape(-1, 3)
        sources = self.source_ports(numbers)
        path, *_ = self._paths.there_and_back(ends[:, 0], ends[:, 1], sources, ends[:, 2])
        return [[link for link in one if link >= 0] for one in path.tolist()]

    def _lay(
        self, numbers: Integers, ways: Sequence[Way], mine: state.Table, feeders: state.Table
    ) -> None:
        if not ways:
            return
        src, dst, port = (
            np.array([getattr(way, name) for way in ways], dtype=np.int64)
            for name in ("src", "dst", "port")
        )
        path, back, hops, delay = self._paths.there_and_back(
            src, dst, self.source_ports(numbers), port
        )
        mine["path"], mine["back"], mine["hops"], mine["delay"] = path, back, hops, delay
        for at, way in enumerate(ways):
            mine["level"][at] = way.level
            if way.levels is not None:
                mine["level"][at, : len(way.levels)] = way.levels
            mine["band"][at] = way.level
        mine["least_rtt"], mine["bottleneck"] = 2 * delay, -1
        feeders["hops"], feeders["band"] = 1, mine["band"]
