"""First bytes first; training goes below the rest of the flows while it can afford to, else beside.

The queues and marks are those of first-bytes, so small flows wait for nobody, whatever training
does. A worker sends low, below the rest of the flows, while it has slack (policies/slack.py), and
in the middle band beside that when it has none. Unlike the first version it does not go down at the
end of its part of a ring: a few bytes that the next worker waits for were starved there.
"""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port
from policies.link.first_bytes import OPTIONS, demoting
from policies.slack import TOLERANCE_OPTION, SlackRule

ACCOUNT = Option("1: what iterations were late decides how much it dares", 0, 1, 0)


def discipline(port: Port, tolerance: float, account: int, **queues: int) -> Discipline:
    """The queues of first-bytes, whatever is tolerated."""
    return demoting(**queues)


def steer(iteration_ns: int, tolerance: float, account: int, **queues: int) -> SlackRule:
    """Slack has nothing to do with the queues."""
    return SlackRule(iteration_ns, tolerance, pressed="middle", stays=True, account=bool(account))


POLICY = LinkPolicy(
    name="slack-aware",
    title="Slack-aware",
    description="first bytes first; training is below the rest of the flows while it has slack",
    flows="high",
    training="low",
    discipline=discipline,
    options={"tolerance": TOLERANCE_OPTION, **OPTIONS, "account": ACCOUNT},
    steer=steer,
)
