"""Strict priority by the kernel's own prio qdisc, where there is one.

The same promise as strict-priority, which does it with htb alone; here to check one by the other.
"""

from policies.base import BAND_TOS, FIRST_CLASS, LinkPolicy, Port, Queue, by_tos, leaf, one_class

HANDLE = f"{FIRST_CLASS}:"
MIDDLE_FOR_ALL = " ".join(["1"] * 16)  # what no filter matches, whatever its skb->priority


def commands(port: Port) -> list[str]:
    made = [
        *one_class(port),
        f"qdisc replace dev {port.device} parent 1:{FIRST_CLASS} handle {HANDLE} "
        f"prio bands {len(BAND_TOS)} priomap {MIDDLE_FOR_ALL}",
    ]
    for number, tos in enumerate(BAND_TOS.values(), start=1):
        made += [
            leaf(port, f"{HANDLE}{number}", FIRST_CLASS + number),
            by_tos(port, HANDLE, number, tos, f"{HANDLE}{number}"),
        ]
    return made


def queues(port: Port) -> list[Queue]:
    return [
        Queue(band, f"{HANDLE}{number}", port.queue_packets)
        for number, band in enumerate(BAND_TOS, start=1)
    ]


POLICY = LinkPolicy(
    name="prio",
    title="Strict priority (prio)",
    description="three queues of the prio qdisc; a packet waits while any higher one holds some",
    bands=tuple(BAND_TOS),
    flows="high",
    training="low",
    commands=commands,
    queues=queues,
    needs=frozenset({"htb", "prio", "pfifo", "u32"}),
)
