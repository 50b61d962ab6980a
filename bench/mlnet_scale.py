"""What MLNet's size costs the fluid engine: synchronisations of 800 workers, on larger fat trees.

Every worker pushes to every server and gets its part of the model from there: as collectives, so
that nothing else is counted, neither a first model nor records. Building the tables is.
"""

import time
from functools import partial

import numpy as np

import topologies
from bench.base import Effort, Ratio
from policies.link import link_policies
from testbed.fluid import compiled
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from topologies import Cable
from workloads.collectives import aggregation
from workloads.collectives.aggregation import Aggregation
from workloads.schedule import Schedule

CABLE = Cable(rate_bps=10**10, delay_ns=1000, queue_packets=1000)
BYTE = 100_000_000  # of each worker
UNTIL_NS = 10**12
MOST_S = 10.0  # of 800 workers and 40 servers on 1,024 hosts
MOST_OVER_FLOWS = 1.5  # growth of processor time over that of flows
MOST_OVER_HOSTS = 1.0  # growth of processor time over that of hosts, with the same flows


def measure(effort: Effort) -> list[Ratio]:
    if effort.tiny:
        return [Ratio("CPU seconds of 8 x 2", (cpu_s(4, 8, 2),), 1e9, "at most", "tiny")]
    few_s, many_s, wide_s = cpu_s(16, 800, 10), cpu_s(16, 800, 40), cpu_s(32, 800, 10)
    said = f"800 x 10: {few_s:.1f}, 800 x 40: {many_s:.1f}, 800 x 10 on 8,192 hosts: {wide_s:.1f}"
    over_flows, over_hosts = many_s / few_s / 4, wide_s / few_s / 8
    return [
        Ratio(
            "CPU seconds of a direct synchronisation of 800 x 40, 1,024 hosts, over 10",
            (many_s / MOST_S,),
            1.0,
            "at most",
            f"{said} CPU-s",
        ),
        Ratio("CPU time of a flow, 64,000 / 16,000", (over_flows,), MOST_OVER_FLOWS, "at most"),
        Ratio("CPU time of a host, 8,192 / 1,024", (over_hosts,), MOST_OVER_HOSTS, "at most"),
    ]


def cpu_s(k: int, workers: int, servers: int) -> float:
    """Processor time of one push and pull; compiling is not counted."""
    compiled.compile_once(lambda line: None)
    before_s = time.process_time()
    synchronise(k, workers, servers)
    return time.process_time() - before_s


def synchronise(k: int, workers: int, servers: int) -> float:
    """When the last worker has the model; servers are behind the workers, a rack's hosts apart."""
    graph = topologies.available()["fat-tree"](k**3 // 4, CABLE, k=k)
    left = k**3 // 4 - workers
    hosts = [*range(workers), *(workers + at * left // servers for at in range(servers))]
    how = Aggregation(range(workers), servers)  # nobody shares a rack: nothing is summed
    ranks, streams = range(workers + servers), {edge: at for at, edge in enumerate(how.edges)}
    lists = [
        StepList([part(rank, how) for rank in ranks], how.blocks, streams)
        for part in (aggregation.push, aggregation.pull)
    ]
    nothing = np.zeros(0, dtype=np.int64)
    simulation = Simulation(
        graph,
        link_policies()["fifo"],
        Schedule(*[nothing] * 6),
        [],
        [Way(hosts[a], hosts[b], 7000, 0) for a, b in streams],
        step_lists=lists,
    )
    ends: list[float] = []
    pushes, pulls = simulation.players
    for rank in ranks:
        simulation.on_steps_done[pulls[rank]] = lambda: ends.append(simulation.now_ns)
        simulation.on_steps_done[pushes[rank]] = partial(simulation.begin_steps, pulls[rank], BYTE)
        simulation.begin_steps(pushes[rank], BYTE)
    simulation.run(UNTIL_NS)
    assert len(ends) == len(ranks), "somebody is still waiting"
    return max(ends)
