"""One simulation by the short cuts of large ones, or in the plain way; prints what is left.

    NUMBA_DISABLE_JIT=1 python -m tests.both_ways plain|quick|links SEED …

`links` has connections come, go and change at one instant, and looks at their links after each.
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
from testbed.fluid import state as states
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
    simulation.run(drawn.choice([1, 3, 10]) * 10**6)
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


def at_one_instant(seed: int) -> str:
    """What is known of links stays true whatever happens there; how often something was known."""
    drawn = random.Random(seed)
    quiet.FEW = 0
    known = checked(quiet.known_wait)
    count, links = 14, 4
    c, x = states.connections(count), states.scratch(count, links, 1, [0.0, 0.0])
    w = states.links(np.ones(links), np.full(links, drawn.choice([3_000.0, 60_000.0])))
    c["delay"], c["receive"] = 5_000.0, 6e6
    for one in range(count):
        hops = drawn.choice([1, 2, 3])
        c["hops"][one] = hops
        c["path"][one, :hops] = drawn.sample(range(links), hops)
    standing: set[int] = set()
    idle = drawn.choice([0.0, 0.9])
    for _ in range(60):
        one = drawn.randrange(count)
        hops = int(c["hops"][one])
        if one not in standing:
            # Something fresh keeps nothing; who was in a feeder's place, or ahead of one, may.
            c["bottleneck"][one] = -1 if drawn.random() < max(idle, 0.5) else drawn.randrange(hops)
            c["phase"][one] = drawn.choice([states.SLOW_START, states.AVOIDANCE, states.FINAL])
            c["level"][one] = drawn.choice([0, 0, 1])
            c["window"][one] = drawn.choice([3_000.0, 90_000.0])
            c["left"][one] = drawn.choice([0.005, 1e6])  # it ends now, or not yet
            rates.join(c, w, x, one)
            standing.add(one)
        elif drawn.random() < 0.4:
            rates.leave(c, w, x, one)
            standing.discard(one)
        elif drawn.random() < 0.3:  # it is another round, or another level
            c["window"][one] = drawn.choice([1_500.0, 3_000.0, 90_000.0])
            c["level"][one] = drawn.choice([0, 1])
            for hop in range(hops):
                rates.touch(w, x, c["path"][one, hop])
        elif drawn.random() < 0.2:  # rates are settled: all of it may change
            x.counts[states.STAMP] += 1
            for other in standing:
                hop = drawn.randrange(-1, int(c["hops"][other]))
                c["bottleneck"][other] = -1 if drawn.random() < idle else hop
                c["rate"][other] = drawn.choice([0.0, 0.1])
        for link in range(links):
            for level in (0, 1):
                known(c, w, x, link, level, -1)
                known(c, w, x, link, level, drawn.randrange(count))
    return f"{int((w['looked_at'] >= 0).sum())} links were looked at"


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
        way, seed = sys.argv[1], int(one)
        print(seed, at_one_instant(seed) if way == "links" else main(way, seed), flush=True)
