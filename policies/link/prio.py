"""Strict priority by the kernel's own prio qdisc, where there is one.

The same discipline as strict-priority, which is htb's; here to check one by the other.
"""

from dataclasses import replace

from policies.link import Discipline, LinkPolicy, Port, three_bands


def discipline(port: Port) -> Discipline:
    return replace(three_bands(), mechanism="prio")


POLICY = LinkPolicy(
    name="prio",
    title="Strict priority (prio)",
    description="three queues of the prio qdisc; a packet waits while any higher one holds some",
    flows="high",
    training="low",
    discipline=discipline,
)
