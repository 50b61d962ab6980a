"""A push at MLNet's size beside its arithmetic: 800 workers in racks of eight, P servers.

In times of a worker's bytes over a link, 800/P straight, 7 + 100/P through one worker of each rack,
2 + 100/P up a binary tree there, in pieces. The fabric is that of experiments/mlnet-full.yaml;
nothing but the push is simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import topologies
from bench.base import Effort, Ratio
from policies.link import link_policies
from testbed.fluid import compiled
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from topologies import Cable
from workloads.collectives import Part, aggregation, parameter_server
from workloads.collectives.aggregation import Aggregation
from workloads.schedule import Schedule

RACK = 8
CABLE = Cable(rate_bps=10**10, delay_ns=1000, queue_packets=1000)
BYTE, FRAME, PAYLOAD = 100_000_000, 1514, 1448
UNIT_NS = BYTE * 8e9 / CABLE.rate_bps * FRAME / PAYLOAD
UNTIL_NS = 10**11
SERVERS = (10, 20, 40, 100, 200)
PIECES = 200  # of a worker's bytes up a tree, over all servers: enough for it to be full at once
MOST_OFF = 0.1
Edge = tuple[int, int]
Push = tuple[list[Part], int]  # of each rank; into how many blocks the vector is cut


@dataclass(frozen=True)
class Fabric:
    """Racks of eight: workers fill the first, servers are spread over the others."""

    workers: int
    leaves: int
    spines: int

    def simulation(
        self, levels: dict[Edge, int], servers: int, lists: Sequence[StepList]
    ) -> Simulation:
        """Each edge's stream at its level, of strict priority."""
        compiled.compile_once(lambda line: None)
        nothing = np.zeros(0, dtype=np.int64)
        graph = topologies.available()["leaf-spine"](
            self.leaves * RACK, CABLE, leaves=self.leaves, spines=self.spines, oversubscription=1
        )
        free = self.leaves - self.workers // RACK
        spread = (self.workers + at % free * RACK + at // free for at in range(servers))
        hosts = [*range(self.workers), *spread]
        return Simulation(
            graph,
            link_policies()["strict-priority" if any(levels.values()) else "fifo"],
            Schedule(*[nothing] * 6),
            [],
            [Way(hosts[a], hosts[b], 7000, level) for (a, b), level in levels.items()],
            step_lists=lists,
        )

    def straight(self, servers: int) -> Push:
        ranks = range(self.workers + servers)
        return [parameter_server.push(rank, self.workers, servers) for rank in ranks], servers

    def summed(self, servers: int, degree: int | None, pieces: int = 1) -> Push:
        """`pieces`: of a worker's bytes, over all servers; each has one or more."""
        how = self.summing(servers, degree, pieces)
        return [aggregation.push(rank, how) for rank in range(how.ranks)], how.blocks

    def summing(self, servers: int, degree: int | None, pieces: int) -> Aggregation:
        racks = [worker // RACK for worker in range(self.workers)]
        return Aggregation(racks, servers, degree, pieces=max(1, pieces // servers))

    def push_units(self, push: Push, servers: int) -> float:
        """When the last server has its part, in times of a worker's bytes over a link."""
        parts, blocks = push
        edges = dict.fromkeys(
            (rank, one.to) for rank, part in enumerate(parts) for one in part.sends
        )
        streams = {edge: at for at, edge in enumerate(edges)}
        steps = StepList(parts, blocks, streams)
        simulation = self.simulation(dict.fromkeys(edges, 0), servers, [steps])
        ends: list[float] = []
        for player in simulation.players[0]:
            simulation.on_steps_done[player] = lambda: ends.append(simulation.now_ns)
            simulation.begin_steps(player, BYTE)
        simulation.run(UNTIL_NS)
        assert len(ends) == len(parts), "somebody is still waiting"
        return max(ends) / UNIT_NS


FULL = Fabric(workers=800, leaves=128, spines=1)
TINY = Fabric(workers=16, leaves=4, spines=1)


def measure(effort: Effort) -> list[Ratio]:
    fabric, counts = (TINY, (2,)) if effort.tiny else (FULL, SERVERS)
    roots = fabric.workers // RACK
    off: dict[str, list[float]] = {"straight": [], "rack": [], "tree": []}
    said: dict[str, list[str]] = {way: [] for way in off}
    for servers in counts:
        for way, push, expected in (
            ("straight", fabric.straight(servers), fabric.workers / servers),
            ("rack", fabric.summed(servers, None), RACK - 1 + roots / servers),
            ("tree", fabric.summed(servers, 2, PIECES), 2 + roots / servers),
        ):
            units = fabric.push_units(push, servers)
            off[way].append(abs(units / expected - 1))
            said[way].append(f"{servers}: {units:.2f} of {expected:.2f}")
    return [
        Ratio(
            f"how far a push of {fabric.workers} workers is from arithmetic, {way}",
            (max(values),),
            MOST_OFF,
            "at most",
            "; ".join(said[way]),
        )
        for way, values in off.items()
    ]
