"""Three queues with a guaranteed share each; what is left over goes to the higher band first.

The difference to strict priority is the floor: training keeps its share however much the
latency-sensitive traffic sends.
"""

from policies.base import BAND_TOS, LinkPolicy, Port, Sharing, band_queues, banded

SHARES = {"high": 0.5, "middle": 0.3, "low": 0.2}


def commands(port: Port) -> list[str]:
    return banded(port, {band: int(port.rate_bps * share) for band, share in SHARES.items()})


POLICY = LinkPolicy(
    name="htb-priority",
    title="Priority with guaranteed shares",
    description="three queues, each sure of its share (50, 30, 20 %); the rest by priority",
    bands=tuple(BAND_TOS),
    flows="high",
    training="low",
    commands=commands,
    queues=band_queues,
    sharing=Sharing(floors=SHARES),
)
