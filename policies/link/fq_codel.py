"""A queue for each flow, served in turn, short ones first: what Linux distributions ship.

Nobody is told to yield, yet a flow that sends little never waits behind one that sends much.
"""

from policies.link import Discipline, LinkPolicy, Port, ServiceClass


def discipline(port: Port) -> Discipline:
    return Discipline((ServiceClass("all", rest=True, queue_per_flow=True),))


POLICY = LinkPolicy(
    name="fq-codel",
    title="Fair queueing (FQ-CoDel)",
    description="a queue a flow, served in turn; new flows first; standing queues are cut",
    flows="all",
    training="all",
    discipline=discipline,
)
