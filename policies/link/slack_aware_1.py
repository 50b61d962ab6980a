"""Slack-aware as it was first: training moves between the low band and the flows' own.

The queues are those of strict priority. Kept to be compared with: docs/slack-aware.md.
"""

from functools import partial

from policies.link import Discipline, LinkPolicy, Port, three_bands
from policies.slack import TOLERANCE_OPTION, SlackRule


def discipline(port: Port, tolerance: float) -> Discipline:
    """The queues of strict priority, whatever is tolerated."""
    return three_bands()


POLICY = LinkPolicy(
    name="slack-aware-1",
    title="Slack-aware (first version)",
    description="strict priority; training leaves the low queue while its slack has run out",
    flows="high",
    training="low",
    discipline=discipline,
    options={"tolerance": TOLERANCE_OPTION},
    steer=partial(SlackRule, pressed="high"),
)
