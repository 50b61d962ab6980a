"""Compiles the simulator before the first run needs it, and says so: it takes a while, once."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from policies import available
from testbed.fluid import FOLDER
from testbed.fluid.simulation import Simulation, Way
from topologies import Cable, tor
from workloads.schedule import Schedule

# What numba kept is in this folder, named after the sources; the mark says that it is complete.
MARK = FOLDER / "complete"
KEPT = 8  # for other checkouts on this machine; a few MB each


def compile_once(say: Callable[[str], None]) -> None:
    """Compile everything, unless an earlier run of the same sources has."""
    if MARK.exists():
        with suppress(PermissionError):  # another user's
            MARK.parent.touch()  # still in use
        return
    say("compiling the simulator, once: about half a minute …")
    rehearse()
    MARK.parent.mkdir(parents=True, exist_ok=True)
    MARK.touch()
    forget_old(MARK.parent.parent)


def forget_old(cache: Path) -> None:
    """What was compiled from sources that nobody uses any more would pile up, change by change."""
    found = sorted(cache.glob("fluid-*"), key=lambda folder: -folder.stat().st_mtime)
    for folder in found[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def rehearse() -> None:
    """Use each compiled function once: two hosts, one flow, one ring, one message."""
    one = np.ones(1, dtype=np.int64)
    flow = Schedule(
        flow=0 * one, mix=0 * one, src=0 * one, dst=one, size_byte=1000 * one, start_ns=0 * one
    )
    ways = [Way(0, 1, 1, 0), Way(1, 0, 1, 0), Way(0, 1, 2, 0)]
    rack = tor.build(2, Cable(rate_bps=10**9, delay_ns=1000, queue_packets=100))
    simulation = Simulation(rack, available()["fifo"], flow, [0], ways)
    simulation.make_ring([0, 1])
    for stream in (0, 1):
        simulation.on_ring_done[stream] = lambda: None
        simulation.begin_ring(stream, 1000.0)
    simulation.on_arrival[2] = lambda: None
    simulation.post(2, 1000.0)
    simulation.message_delay_ns(2)
    simulation.change_level(2, 0)
    simulation.change_first_level(2, 0)
    simulation.grow()
    simulation.run(10**9)
    simulation.carried_byte()
