"""How much this machine carries through emulated links, and the dilation that follows.

Measured once a day and machine: four hosts send round a ring through shaped ports that are too
fast to matter. `auto` dilation is the smallest at which every host link of an experiment could
be full at once within that capacity, with headroom for the processes that fill them.
"""

import math
import os
import platform
import time
from collections.abc import Callable

import policies
import topologies
from testbed import machine
from testbed.engine import Wiring
from testbed.folder import write_json
from testbed.iperf import goodput_bps
from testbed.network import Network
from testbed.processes import Nursery

CACHE_FILE = "capacity.json"
FRESH_S = 24 * 3600
TRIES = 2  # the best counts: another process in the way makes a machine look slower than it is
HEADROOM = 0.6  # workers, generators and timers need the rest
PROBE_HOSTS = 4
PROBE_RATE_BPS = 100_000_000_000
STEP = 0.5


def dilation(hosts: int, rate_bps: int, capacity_bps: float) -> float:
    """The smallest step at which `hosts` links of `rate_bps` fit into the machine."""
    needed = hosts * rate_bps / (capacity_bps * HEADROOM)
    return max(1.0, math.ceil(needed / STEP) * STEP)


def measured(offload: bool, say: Callable[[str], None], run_id: str) -> float:
    """This machine's capacity in bit/s: from the cache, or measured now."""
    key = f"{platform.release()} {os.cpu_count()} cores offload={'on' if offload else 'off'}"
    known = machine.cached_json(CACHE_FILE)
    entry = known.get(key)
    if entry and time.time() - entry["measured_at"] < FRESH_S:
        return float(entry["capacity_bps"])
    say("measuring how much this machine can carry (once a day) …")
    found = max(_measure(offload, run_id) for _ in range(TRIES))
    known[key] = {"capacity_bps": found, "measured_at": time.time()}
    write_json(machine.cache_folder() / CACHE_FILE, known)
    return found


def _measure(offload: bool, run_id: str) -> float:
    cable = topologies.Cable(PROBE_RATE_BPS, 0, 1000)
    topology = topologies.available()["tor"](PROBE_HOSTS, cable)
    ring = list(zip(topology.hosts, topology.hosts[1:] + topology.hosts[:1], strict=True))
    logs = machine.cache_folder() / "capacity-logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (
        Network(
            topology, policies.available()["fifo"], Wiring(offload=offload), run_id=run_id
        ) as network,
        Nursery(run_id, logs / "nursery.log") as nursery,
    ):
        return sum(goodput_bps(network, nursery, ring, logs))
