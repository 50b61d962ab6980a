"""What a shaped link carries, over what its rate allows after headers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import topologies
from bench.base import Effort, Ratio, run_id
from policies.link import link_policies
from testbed.engine import Wiring
from testbed.live.iperf import HEADER_LIMIT, goodput_bps
from testbed.live.network import Network
from testbed.processes import Nursery

GOAL = 0.93
RATES_BPS = (100_000_000, 1_000_000_000, 10_000_000_000)
TOO_FAST_TO_MATTER_BPS = 100_000_000_000
MARGIN = 1.1  # a machine that barely carries the rate cannot show how well it is shaped


def measure(effort: Effort) -> list[Ratio]:
    machine_bps = achieved_bps(TOO_FAST_TO_MATTER_BPS)
    rates_bps = RATES_BPS[:1] if effort.tiny else RATES_BPS
    return [ratio(rate_bps, machine_bps, effort.repeats) for rate_bps in rates_bps]


def ratio(rate_bps: int, machine_bps: float, repeats: int) -> Ratio:
    name = f"goodput over header-limited rate at {rate_bps / 1e9:g} Gbit/s"
    limit_bps = rate_bps * HEADER_LIMIT
    if machine_bps < limit_bps * MARGIN:
        note = f"this machine carries only {machine_bps / 1e9:.1f} Gbit/s over one link"
        return Ratio(name, (), GOAL, note=note)
    return Ratio(name, tuple(achieved_bps(rate_bps) / limit_bps for _ in range(repeats)), GOAL)


def achieved_bps(rate_bps: int) -> float:
    """One TCP connection from a host through the switch to another, for a second."""
    topology = topologies.available()["tor"](2, topologies.Cable(rate_bps, 0, 1000))
    name = run_id()
    with (
        TemporaryDirectory(prefix="giveway-bench-") as folder,
        Network(topology, link_policies()["fifo"], Wiring(), run_id=name) as network,
        Nursery(name, Path(folder) / "nursery.log") as nursery,
    ):
        [achieved] = goodput_bps(network, nursery, [("h1", "h2")], Path(folder))
    return achieved
