"""Three queues with a guaranteed share each; what is left over goes to the higher band first.

The difference to strict priority is the floor: training keeps its share however much the
latency-sensitive traffic sends.
"""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port, three_bands

LEAST = 0.001  # a share of nothing is strict priority


def discipline(port: Port, high: float, middle: float, low: float) -> Discipline:
    return three_bands({"high": high, "middle": middle, "low": low})


def share(band: str, default: float) -> Option:
    return Option(f"the {band} queue's share of the line", LEAST, 1, default, step=None)


POLICY = LinkPolicy(
    name="htb-priority",
    title="Priority with guaranteed shares",
    description="three queues, each sure of its share; the rest by priority",
    flows="high",
    training="low",
    discipline=discipline,
    options={
        "high": share("high", 0.5),
        "middle": share("middle", 0.3),
        "low": share("low", 0.2),
    },
)
