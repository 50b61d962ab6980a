"""Three queues, the higher one always first: the thesis's arrangement.

In a kernel htb does it, as many lack the prio qdisc: each band may borrow the whole line, in the
order of levels, and what a band owns without asking is next to nothing.
"""

from policies.link import Discipline, LinkPolicy, Port, three_bands


def discipline(port: Port) -> Discipline:
    return three_bands()


POLICY = LinkPolicy(
    name="strict-priority",
    title="Strict priority",
    description="three queues; a packet waits while any higher queue holds one",
    flows="high",
    training="low",
    discipline=discipline,
)
