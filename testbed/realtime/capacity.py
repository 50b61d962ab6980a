"""How much this machine carries through emulated links, and the dilation that follows.

Measured once a day, machine and link rate: four hosts send round a ring through shaped ports, in
packets as large as the asked rate has them, faster and faster until the machine does not keep up.
(Shaping costs a timer for every packet: a machine carries several times more unshaped.) `auto`
dilation is the smallest at which every link of an experiment could be full at once within
that capacity, with headroom for the processes that fill them. (Capacity counts a byte once that
crosses the two links of a rack, and a full rack has as many links as senders.)
"""

import math
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import topologies
from basics.files import write_json
from policies.link import link_policies
from testbed import cache
from testbed.engine import Wiring
from testbed.live.iperf import goodput_bps
from testbed.live.network import Network
from testbed.processes import Nursery

CACHE_FILE = "capacity.json"
FRESH_S = 24 * 3600
TRIES = 2  # the best counts: another process in the way makes a machine look slower than it is
# Workers, generators and their timers need the rest. With 0.8 the quickstart ran undilated on two
# cores and its latest 1 % of sleeps were 1 to 10 ms late; with 0.3 it is slowed down three times,
# most are within the bound of a faithful run, and flow times come near the virtual engine's.
HEADROOM = 0.3
PROBE_HOSTS = 4
FIRST_PROBE_BPS = 5_000_000_000  # of each host
KEPT_UP = 0.85  # a machine that achieves this much of a probe may carry still more
STEP = 0.5


def dilation(links_bps: float, capacity_bps: float) -> float:
    """The smallest step at which links of this rate together fit into the machine."""
    needed = links_bps / (capacity_bps * HEADROOM)
    return max(1.0, math.ceil(needed / STEP) * STEP)


def measured(offload: bool, rate_bps: int, say: Callable[[str], None], run_id: str) -> float:
    """What this machine carries in bit/s over links of a rate: from the cache, or measured now."""
    packets = f"offload=on rate={rate_bps}" if offload else "offload=off"
    key = f"{platform.release()} {os.cpu_count()} cores shaped {packets}"
    known = cache.read_json(CACHE_FILE)
    kept = believable(known.get(key))
    if kept is not None:
        return kept
    place = cache.made()
    say("measuring how much this machine can carry (once a day) …")
    found = max(_measure(offload, rate_bps, run_id) for _ in range(TRIES))
    known[key] = {"capacity_bps": found, "measured_at": time.time()}
    write_json(place / CACHE_FILE, known)
    return found


def believable(entry: Any) -> float | None:
    """The capacity of an entry of the cache; None if it is old, or nobody can have measured it."""
    try:
        found, age_s = float(entry["capacity_bps"]), time.time() - float(entry["measured_at"])
    except (TypeError, ValueError, KeyError):
        return None
    return found if 0 <= age_s < FRESH_S and 0 < found < math.inf else None


def _measure(offload: bool, rate_bps: int, run_id: str) -> float:
    probe_bps = FIRST_PROBE_BPS
    while True:
        # Links of the asked rate, so their packets; dilation makes them as fast as the probe.
        wiring = Wiring(offload=offload, dilation=rate_bps / probe_bps)
        # The slowest counts: pairs that had to wait for others were measured while those rested.
        slowest_bps = min(_ring_bps(rate_bps, wiring, run_id))
        if slowest_bps < KEPT_UP * probe_bps:
            return PROBE_HOSTS * slowest_bps
        probe_bps *= 2


def _ring_bps(rate_bps: int, wiring: Wiring, run_id: str) -> list[float]:
    cable = topologies.Cable(rate_bps, 0, 1000)
    topology = topologies.available()["tor"](PROBE_HOSTS, cable)
    ring = list(zip(topology.hosts, topology.hosts[1:] + topology.hosts[:1], strict=True))
    logs = cache.made() / "capacity-logs"
    logs.mkdir(exist_ok=True)
    with (
        Network(topology, link_policies()["fifo"], wiring, run_id=run_id) as network,
        Nursery(run_id, logs / "nursery.log") as nursery,
    ):
        return goodput_bps(network, nursery, ring, logs)
