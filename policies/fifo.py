"""One queue for everybody: what a switch does when nobody has told it otherwise."""

from policies.base import FIRST_CLASS, LinkPolicy, Port, leaf, one_class, one_queue


def commands(port: Port) -> list[str]:
    return [*one_class(port), leaf(port, f"1:{FIRST_CLASS}", FIRST_CLASS)]


POLICY = LinkPolicy(
    name="fifo",
    title="FIFO",
    description="one queue, first come first served",
    bands=("all",),
    flows="all",
    training="all",
    commands=commands,
    queues=one_queue,
    needs=frozenset({"htb", "pfifo"}),
)
