"""What finding a flow's way costs as networks and flows grow: it should not."""

import time

import numpy as np

import topologies
from bench.base import Effort, Ratio
from topologies.routes import Routes, addresses, five_tuple_key

GOAL = 3.0
SMALL, LARGE = (4, 100_000), (16, 1_000_000)  # k of a fat tree, flows
TINY = (4, 10_000)


def measure(effort: Effort) -> list[Ratio]:
    pairs = [
        (way_s(*SMALL), way_s(*(TINY if effort.tiny else LARGE))) for _ in range(effort.repeats)
    ]
    seconds = ", ".join(f"{large * LARGE[1]:.2f}" for _, large in pairs)
    return [
        Ratio(
            "processor time of a way: 1,000,000 flows of 1,024 hosts over 100,000 of 16",
            tuple(large / small for small, large in pairs),
            GOAL,
            "at most",
            f"{seconds} s for a million flows; {tables_s():.2f} s for the tables before",
        )
    ]


def way_s(k: int, flows: int) -> float:
    """Processor seconds for one flow of many between random hosts, its hash included."""
    routes = Routes(tree(k))
    draw = np.random.default_rng(0)
    src, dst = draw.integers(0, k**3 // 4, (2, flows))
    before = time.process_time()
    keys = five_tuple_key(addresses(src), addresses(dst), 32768 + np.arange(flows) % 28_000, 5000)
    routes.paths(src, dst, keys)
    return (time.process_time() - before) / flows


def tables_s() -> float:
    before = time.process_time()
    Routes(tree(LARGE[0]))
    return time.process_time() - before


def tree(k: int) -> topologies.Topology:
    cable = topologies.Cable(10**10, 0, 1000)
    return topologies.available()["fat-tree"](k**3 // 4, cable, k=k)
