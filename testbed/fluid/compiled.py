"""Compiles the simulator before the first run needs it, and says so: it takes a while, once."""

import json
import pickle
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from basics.files import digest_of, write_json
from policies.link import link_policies
from testbed import cache
from testbed.fluid import FOLDER
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from topologies import Cable, tor
from workloads.collectives import send
from workloads.schedule import Schedule

# What numba kept is in this folder, named after the sources; the mark, that it is complete, and
# what its compiled code was then. (Another signature would make an index longer: not in the mark.)
MARK = "complete"
KEPT = 8  # for other checkouts on this machine; a few MB each
IN_USE_S = 24 * 3600  # or somebody's run would lose what it is loading


def compile_once(say: Callable[[str], None]) -> None:
    """Compile everything, unless an earlier run of the same sources has."""
    for path in FOLDER.rglob("*"):
        cache.demand_own(path)
    if (FOLDER / MARK).exists():
        if intact():
            with suppress(PermissionError):  # another user's
                FOLDER.touch()  # still in use
            return
        shutil.rmtree(FOLDER, ignore_errors=True)
    say("compiling the simulator, once: about half a minute …")
    rehearse()
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_json(FOLDER / MARK, {str(path.relative_to(FOLDER)): digest_of(path) for path in code()})
    forget_old(FOLDER.parent)


def code() -> list[Path]:
    return sorted(FOLDER.rglob("*.nbc"))


def intact() -> bool:
    """Whether what was compiled is complete and unchanged: it is loaded and run unseen."""
    try:
        sealed = json.loads((FOLDER / MARK).read_text())
        return (
            sealed.keys() > set()
            and all(digest_of(FOLDER / name) == digest for name, digest in sealed.items())
            and all(map(readable, FOLDER.rglob("*.nbi")))
        )
    except (OSError, ValueError, AttributeError):
        return False


def readable(index: Path) -> bool:
    """Whether numba could read which compiled code there is; what it says wrongly is not found."""
    try:
        with index.open("rb") as file:
            pickle.load(file)
            pickle.loads(file.read())
    except Exception:  # a damaged pickle raises anything
        return False
    return True


def forget_old(cache: Path) -> None:
    """What was compiled from sources that nobody uses any more would pile up, change by change."""
    used_s = {folder: folder.stat().st_mtime for folder in cache.glob("fluid-*")}
    for folder in sorted(used_s, key=lambda folder: -used_s[folder])[KEPT:]:
        if time.time() - used_s[folder] > IN_USE_S:
            shutil.rmtree(folder, ignore_errors=True)


def rehearse() -> None:
    """Use each compiled function once: two hosts, one flow, one ring, one message, one step."""
    one = np.ones(1, dtype=np.int64)
    flow = Schedule(
        flow=0 * one, mix=0 * one, src=0 * one, dst=one, size_byte=1000 * one, start_ns=0 * one
    )
    ways = [Way(0, 1, 1, 0), Way(1, 0, 1, 0), Way(0, 1, 2, 0), Way(0, 1, 3, 0)]
    step = StepList([send.part(rank, 2) for rank in (0, 1)], 1, {(0, 1): 3})
    rack = tor.build(2, Cable(rate_bps=10**9, delay_ns=1000, queue_packets=100))
    simulation = Simulation(rack, link_policies()["fifo"], flow, [0], ways, step_lists=[step])
    simulation.make_ring([0, 1])
    for stream in (0, 1):
        simulation.on_ring_done[stream] = lambda: None
        simulation.begin_ring(stream, 1000.0)
    for player in (0, 1):
        simulation.on_steps_done[player] = lambda: None
        simulation.begin_steps(player, 1000.0)
    simulation.on_arrival[2] = lambda: None
    simulation.post(2, 1000.0)
    simulation.message_delay_ns(2)
    simulation.change_level(2, 0)
    simulation.change_levels(2, 0)
    simulation.change_first_level(2, 0)
    simulation.change_last_level(2, 0)
    simulation.grow()
    simulation.run(10**9)
    simulation.carried_byte()
    simulation.silence(2, 1)
