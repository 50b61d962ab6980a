"""One simulation by the short cuts of large ones, or in the plain way; prints what is left.

    NUMBA_DISABLE_JIT=1 python -m tests.both_ways plain|quick SEED …

Not compiled, since compiled code does not see other thresholds.
"""

import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import topologies
from policies.link import link_policies
from testbed.fluid import filling, quiet, rates, rounds, waits
from testbed.fluid.queues import wait_at
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from topologies import Cable
from workloads.collectives import aggregation
from workloads.collectives.aggregation import Aggregation
from workloads.schedule import Schedule

NEVER = 10**9
POLICIES = ["fifo", "fifo", "strict-priority", "htb-priority", "fq-codel"]


def main(way: str, seed: int) -> str:
    if way == "plain":
        quiet.FEW = waits.MANY = waits.LOOKS = filling.MANY = NEVER
        rates.CLOSE = float(NEVER)
    else:
        quiet.FEW = waits.LOOKS = 0
        waits.MANY = filling.MANY = 1
        rounds.known_wait = quiet.known_wait = checked(quiet.known_wait)
    drawn = random.Random(seed)
    simulation = simulated(drawn, drawn.choice(POLICIES))
    simulation.run(drawn.choice([1, 3, 50]) * 10**6)
    made = simulation.state
    left = hashlib.sha256()
    for name in ("left", "rate", "cap", "window", "touched", "wait", "wait_back", "draws"):
        left.update(made.c[name].tobytes())
    for name in ("carried", "load", "acks"):
        left.update(made.w[name].tobytes())
    left.update(made.f["end"].tobytes())
    ended = int((made.f["end"] < np.inf).sum())
    return f"{simulation.now_ns} {ended} {made.w['carried'].sum():.0f} {left.hexdigest()}"


def checked(known: Callable[..., float]) -> Callable[..., float]:
    """What is known of a link is what a look at each finds."""

    def both(*situation: Any) -> float:
        found = known(*situation)
        assert found == wait_at(*situation), f"{found} is not {wait_at(*situation)}"
        return found

    return both


def simulated(drawn: random.Random, policy: str) -> Simulation:
    """Straight, through one worker of a rack or up a tree, with flows beside them."""
    in_a_rack = drawn.choice([1, 3])
    racks = [at // in_a_rack for at in range(9)]
    servers, queue = drawn.choice([2, 4]), drawn.choice([6, 20, 100, 1000])
    how = Aggregation(racks, servers, drawn.choice([None, 2]), pieces=drawn.choice([1, 3]))
    graph = topologies.available()["leaf-spine"](
        18,
        Cable(rate_bps=10**9, delay_ns=2000, queue_packets=queue),
        leaves=6,
        spines=drawn.choice([1, 2]),
        oversubscription=drawn.choice([1, 3]),
    )
    ranks = range(how.ranks)
    streams = {edge: at for at, edge in enumerate(how.edges)}
    lists = [
        StepList([part(rank, how) for rank in ranks], how.blocks, streams)
        for part in (aggregation.push, aggregation.pull)
    ]
    count = drawn.choice([4, 20, 60])
    ends = [drawn.sample(range(18), 2) for _ in range(count)]
    starts = sorted(drawn.choice([0, 0, 100_000, drawn.randrange(10**6)]) for _ in range(count))
    flows = Schedule(
        flow=np.arange(count),
        mix=np.zeros(count, dtype=np.int64),
        src=np.array([one for one, _ in ends]),
        dst=np.array([one for _, one in ends]),
        size_byte=np.array([drawn.choice([2_000, 60_000, 400_000]) for _ in range(count)]),
        start_ns=np.array(starts),
    )
    last = len(link_policies()[policy].bands) - 1
    simulation = Simulation(
        graph,
        link_policies()[policy],
        flows,
        [0],
        [Way(a, b, 7000, last) for a, b in streams],
        step_lists=lists,
        seed=drawn.randrange(100),
    )
    byte = drawn.choice([50_000, 600_000])
    pushes, pulls = simulation.players
    for rank in ranks:
        pull = pulls[rank]
        simulation.on_steps_done[pull] = lambda: None
        simulation.on_steps_done[pushes[rank]] = lambda at=pull: simulation.begin_steps(at, byte)
        simulation.begin_steps(pushes[rank], byte)
    return simulation


if __name__ == "__main__":
    np.seterr(all="ignore")  # draws wrap around
    for one in sys.argv[2:]:
        print(one, main(sys.argv[1], int(one)), flush=True)
