"""A queue for each flow, served in turn, short ones first: what Linux distributions ship.

Nobody is told to yield, yet a flow that sends little never waits behind one that sends much.
"""

from policies.base import FIRST_CLASS, LinkPolicy, Port, Sharing, one_class, one_queue


def commands(port: Port) -> list[str]:
    return [
        *one_class(port),
        f"qdisc replace dev {port.device} parent 1:{FIRST_CLASS} handle {FIRST_CLASS}: "
        f"fq_codel limit {port.queue_packets}",
    ]


POLICY = LinkPolicy(
    name="fq-codel",
    title="Fair queueing (FQ-CoDel)",
    description="a queue a flow, served in turn; new flows first; standing queues are cut",
    bands=("all",),
    flows="all",
    training="all",
    commands=commands,
    queues=one_queue,
    sharing=Sharing(queue_per_flow=True),
    needs=frozenset({"htb", "fq_codel"}),
)
