"""One queue for everybody: what a switch does when nobody has told it otherwise."""

from policies.link import Discipline, LinkPolicy, Port, one_queue


def discipline(port: Port) -> Discipline:
    return one_queue()


POLICY = LinkPolicy(
    name="fifo",
    title="FIFO",
    description="one queue, first come first served",
    flows="all",
    training="all",
    discipline=discipline,
)
