"""MLNet's arithmetic in the simulation: how long a push takes, at a tenth of its size.

800 workers in racks of 8 and P servers take as long as 80 and P/10: in times of a worker's bytes
over a link, 800/P straight, 7 + 100/P through one worker of each rack, 2 + 100/P up a tree there.

In pieces, a rack's first worker sends a server's part on while it still sums it: all but the last
server's part is then there early, and of 7 and 2 only (P - 1)/P is waited for. With 800 workers and
ten servers or more that is at most 4 % less.
"""

import numpy as np
import pytest

import topologies
from policies.link import link_policies
from testbed.fluid import compiled
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from topologies import Cable
from workloads.collectives import Part, aggregation, parameter_server
from workloads.collectives.aggregation import Aggregation
from workloads.schedule import Schedule

RACK, WORKERS, LEAVES, SPINES = 8, 80, 20, 8
CABLE = Cable(rate_bps=10**10, delay_ns=1000, queue_packets=1000)
BYTE, FRAME, PAYLOAD = 100_000_000, 1514, 1448
UNIT_NS = BYTE * 8e9 / CABLE.rate_bps * FRAME / PAYLOAD
PIECES = 200  # of a worker's bytes, over all servers: enough for a tree to be full at once


def push_ns(parts: list[Part], blocks: int, servers: int) -> float:
    """When the last server has its part; servers are spread over the racks without workers."""
    compiled.compile_once(print)
    nothing = np.zeros(0, dtype=np.int64)
    graph = topologies.available()["leaf-spine"](
        LEAVES * RACK, CABLE, leaves=LEAVES, spines=SPINES, oversubscription=1
    )
    free = LEAVES - WORKERS // RACK
    hosts = [
        *range(WORKERS),
        *(WORKERS + at % free * RACK + at // free for at in range(servers)),
    ]
    edges = dict.fromkeys((rank, one.to) for rank, part in enumerate(parts) for one in part.sends)
    simulation = Simulation(
        graph,
        link_policies()["fifo"],
        Schedule(*[nothing] * 6),
        [],
        [Way(hosts[a], hosts[b], 7000, 0) for a, b in edges],
        step_lists=[StepList(parts, blocks, {edge: at for at, edge in enumerate(edges)})],
    )
    ends: list[float] = []
    for player in simulation.players[0]:
        simulation.on_steps_done[player] = lambda: ends.append(simulation.now_ns)
        simulation.begin_steps(player, BYTE)
    simulation.run(10**11)
    assert len(ends) == len(parts)
    return max(ends)


def straight(servers: int) -> tuple[list[Part], int]:
    ranks = range(WORKERS + servers)
    return [parameter_server.push(rank, WORKERS, servers) for rank in ranks], servers


def summed(servers: int, degree: int | None, pieces: int) -> tuple[list[Part], int]:
    """`pieces`: of a worker's bytes, over all servers; each has one or more."""
    racks = [worker // RACK for worker in range(WORKERS)]
    how = Aggregation(racks, servers, degree, pieces=max(1, pieces // servers))
    return [aggregation.push(rank, how) for rank in range(WORKERS + servers)], how.blocks


@pytest.mark.parametrize("servers", [1, 4, 10, 20])
def test_a_push_takes_what_mlnets_arithmetic_says(servers: int) -> None:
    roots = WORKERS // RACK
    early = (servers - 1) / servers
    for (parts, blocks), units in (
        (straight(servers), WORKERS / servers),
        (summed(servers, None, pieces=1), RACK - 1 + roots / servers),
        (summed(servers, None, PIECES), (RACK - 1) * early + roots / servers),
        (summed(servers, 2, PIECES), 2 * early + roots / servers),
    ):
        assert push_ns(parts, blocks, servers) / UNIT_NS == pytest.approx(units, rel=0.05)
