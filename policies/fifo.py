"""One queue for everybody: what a switch does when nobody has told it otherwise."""

from policies.base import FIRST_CLASS, LinkPolicy, Port, Queue, htb_class, leaf, shaped_root


def commands(port: Port) -> list[str]:
    return [
        *shaped_root(port, default_class=FIRST_CLASS),
        htb_class(port, "1:1", FIRST_CLASS, own_bps=port.rate_bps),
        leaf(port, FIRST_CLASS),
    ]


def queues(port: Port) -> list[Queue]:
    return [Queue("all", f"1:{FIRST_CLASS}", port.queue_packets)]


POLICY = LinkPolicy(
    name="fifo",
    title="FIFO",
    description="one queue, first come first served",
    bands=("all",),
    flows="all",
    training="all",
    commands=commands,
    queues=queues,
    needs=frozenset({"htb", "pfifo"}),
)
