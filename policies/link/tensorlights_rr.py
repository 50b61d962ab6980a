"""TensorLights, RoundRobin: as One, and the priorities rotate, so that no job is always last."""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port, Situation
from policies.link.tensorlights import in_order

PERIOD_NS = 20_000_000_000  # the original's


def discipline(port: Port, situation: Situation, period_ns: int) -> Discipline:
    """Each period the first becomes the last, and all others move up."""
    turn, jobs = situation.time_ns // period_ns, len(port.servers)
    return in_order(port, [(at - turn) % jobs for at in range(jobs)])


POLICY = LinkPolicy(
    name="tensorlights-rr",
    title="TensorLights-RoundRobin",
    description="servers that share a host send in an order of jobs that rotates every period",
    flows="all",
    training="all",
    discipline=discipline,
    options={
        "period": Option("how long an order lasts", 1_000, 10**13, PERIOD_NS, unit="ns"),
    },
    acts=True,
)
