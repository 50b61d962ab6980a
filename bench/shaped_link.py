"""What a shaped link carries, over what its rate allows after headers."""

from bench.base import Effort, Ratio, rack
from testbed.iperf import HEADER_LIMIT, goodput_bps

GOAL = 0.93
RATES_BPS = (100_000_000, 1_000_000_000, 10_000_000_000)
TOO_FAST_TO_MATTER_BPS = 100_000_000_000
# A machine that carries barely the rate is not a machine on which shaping can be judged.
MARGIN = 1.1


def measure(effort: Effort) -> list[Ratio]:
    machine_bps = achieved_bps(TOO_FAST_TO_MATTER_BPS)
    rates_bps = RATES_BPS[:1] if effort.tiny else RATES_BPS
    return [ratio(rate_bps, machine_bps, effort.repeats) for rate_bps in rates_bps]


def ratio(rate_bps: int, machine_bps: float, repeats: int) -> Ratio:
    name = f"goodput over header-limited rate, {rate_bps / 1e9:g} Gbit/s"
    note = f"without a limit this machine carries {machine_bps / 1e9:.1f} Gbit/s over such a link"
    if machine_bps < rate_bps * HEADER_LIMIT * MARGIN:
        return Ratio(name, (), GOAL, note=note)
    limit_bps = rate_bps * HEADER_LIMIT
    values = tuple(achieved_bps(rate_bps) / limit_bps for _ in range(repeats))
    return Ratio(name, values, GOAL, note=note)


def achieved_bps(rate_bps: int) -> float:
    """From one host through the switch to another, for a second."""
    with rack(2, rate_bps) as (network, nursery, logs):
        [achieved] = goodput_bps(network, nursery, [("h1", "h2")], logs)
    return achieved
