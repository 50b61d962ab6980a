"""MLNet's arithmetic in the simulation: how long a push takes, at a tenth of its size.

800 workers in racks of 8 and P servers take as long as 80 and P/10: in times of a worker's bytes
over a link, 800/P straight, 7 + 100/P through one worker of each rack, 2 + 100/P up a tree there.

In pieces, a rack's first worker sends a server's part on while it still sums it: all but the last
server's part is then there early, and of 7 and 2 only (P - 1)/P is waited for. With 800 workers and
ten servers or more that is at most 4 % less.
"""

import re
from functools import partial

import numpy as np
import pytest

import topologies
from policies.link import link_policies
from testbed.fluid import compiled
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from tests.conftest import REPOSITORY
from topologies import Cable
from workloads.collectives import Part, aggregation, parameter_server
from workloads.collectives.aggregation import Aggregation
from workloads.schedule import Schedule

RACK, WORKERS, LEAVES, SPINES = 8, 80, 20, 8
CABLE = Cable(rate_bps=10**10, delay_ns=1000, queue_packets=1000)
BYTE, FRAME, PAYLOAD = 100_000_000, 1514, 1448
UNIT_NS = BYTE * 8e9 / CABLE.rate_bps * FRAME / PAYLOAD
Edge = tuple[int, int]
PIECES = 200  # of a worker's bytes, over all servers: enough for a tree to be full at once


def simulated(levels: dict[Edge, int], servers: int, lists: list[StepList]) -> Simulation:
    """Each edge's stream at its level, of strict priority."""
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
    return Simulation(
        graph,
        link_policies()["strict-priority" if any(levels.values()) else "fifo"],
        Schedule(*[nothing] * 6),
        [],
        [Way(hosts[a], hosts[b], 7000, level) for (a, b), level in levels.items()],
        step_lists=lists,
    )


def push_ns(parts: list[Part], blocks: int, servers: int) -> float:
    """When the last server has its part; servers are spread over the racks without workers."""
    edges = dict.fromkeys((rank, one.to) for rank, part in enumerate(parts) for one in part.sends)
    streams = {edge: at for at, edge in enumerate(edges)}
    simulation = simulated(dict.fromkeys(edges, 0), servers, [StepList(parts, blocks, streams)])
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


def synchronised(servers: int, models_level: int) -> tuple[float, float]:
    """When the last server has its part, and the last worker the model, up and down a tree."""
    racks = [worker // RACK for worker in range(WORKERS)]
    how = Aggregation(racks, servers, 2, pieces=PIECES // servers)
    ranks = range(how.ranks)
    streams = {edge: at for at, edge in enumerate(how.edges)}
    lists = [
        StepList([part(rank, how) for rank in ranks], how.blocks, streams)
        for part in (aggregation.push, aggregation.pull)
    ]
    up = {edge for rank in ranks for one in lists[0].parts[rank].sends for edge in [(rank, one.to)]}
    levels = {edge: 0 if edge in up else models_level for edge in streams}
    simulation = simulated(levels, servers, lists)
    pushes, pulls = simulation.players
    pushed: list[float] = []
    ends: list[float] = []

    def has_pushed(rank: int) -> None:
        pushed.append(simulation.now_ns)
        simulation.begin_steps(pulls[rank], BYTE)

    for rank in ranks:
        simulation.on_steps_done[pushes[rank]] = partial(has_pushed, rank)
        simulation.on_steps_done[pulls[rank]] = lambda: ends.append(simulation.now_ns)
        simulation.begin_steps(pushes[rank], BYTE)
    simulation.run(10**11)
    assert len(ends) == len(ranks)
    return max(pushed) / UNIT_NS, max(ends) / UNIT_NS


def test_models_of_servers_that_are_done_hold_up_gradients_for_the_others() -> None:
    """Both go through the links of a rack's first worker. Behind the gradients, they do not."""
    push, pull = 2 * 19 / 20 + 10 / 20, 2
    alike, behind = synchronised(20, 0), synchronised(20, 1)
    assert alike[0] > 1.2 * push
    assert behind[0] == pytest.approx(push, rel=0.05)
    assert behind[1] == pytest.approx(push + pull, rel=0.05)
    assert behind[1] < 0.9 * alike[1]


@pytest.mark.parametrize(
    "name",
    [
        "traffic-reduction", "oversubscribed", "both", "prioritisation", "prioritisation-full",
        "full-size",
    ],
)  # fmt: skip
def test_the_page_has_the_numbers_of_its_reproductions(name: str) -> None:
    docs = REPOSITORY / "docs"
    page, kept = ((docs / f"{one}.md").read_text() for one in ("mlnet", "reproductions"))
    [section] = re.findall(rf"^## mlnet/{name}\n(.*?)(?=^## )", kept, re.M | re.S)
    rows = [line.split(" | ") for line in section.splitlines() if line.endswith("reproduced |")]
    ours = [row[2].strip("-% ") for row in rows]
    assert ours
    assert [said for said in ours if said not in page] == []
