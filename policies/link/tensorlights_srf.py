"""TensorLights with the shortest remaining broadcast first: of our own, not of the original.

A model that is nearly out is finished before another is begun, whoever's it is: nobody is preferred
for longer than one broadcast.
"""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port, Situation
from policies.link.tensorlights import in_order

PERIOD_NS = 5_000_000  # a sixth of a 38 MB broadcast at 10 Gbit/s


def discipline(port: Port, situation: Situation, period_ns: int) -> Discipline:
    """Who has the least left to send goes first; who sends nothing now comes after them."""

    def key(at: int) -> tuple[bool, int, int]:
        left = situation.remaining_byte.get(port.servers[at].job, 0)
        return left == 0, left, at

    order = sorted(range(len(port.servers)), key=key)
    return in_order(port, [order.index(at) for at in range(len(order))])


POLICY = LinkPolicy(
    name="tensorlights-srf",
    title="TensorLights-SRF",
    description="servers that share a host: who has the least left of its broadcast sends first",
    flows="all",
    training="all",
    discipline=discipline,
    options={
        "period": Option("how often it looks", 1_000, 10**13, PERIOD_NS, unit="ns"),
    },
    acts=True,
    watches=True,
)
