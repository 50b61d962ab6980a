"""Draws of a simulation: from the seed, who draws, and how often it has drawn (compiled).

So one connection's luck depends on its own history alone, not on the order of events elsewhere.
"""

import numpy as np

from testbed.fluid.inner import inner
from testbed.fluid.state import SEED, Scratch, Table

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
A, B, C, D = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inner
def mixed(value: np.uint64) -> np.uint64:
    """A step of SplitMix64."""
    value = value + STEP
    value = (value ^ (value >> A)) * FIRST
    value = (value ^ (value >> B)) * SECOND
    return value ^ (value >> C)


@inner
def draw(c: Table, x: Scratch, one: int) -> float:
    """Between 0 and 1, for this connection's next decision."""
    c.draws[one] += 1
    found = mixed(np.uint64(x.counts[SEED]))
    found = mixed(found ^ np.uint64(c.who[one]))
    found = mixed(found ^ np.uint64(c.draws[one]))
    return float(found >> D) / 9007199254740992.0
