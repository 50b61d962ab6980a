"""TensorLights, One: a fixed priority for every job at a host with several parameter servers."""

from policies.link import Discipline, LinkPolicy, Port
from policies.link.tensorlights import in_order


def discipline(port: Port) -> Discipline:
    """The order of the file, for ever."""
    return in_order(port, range(len(port.servers)))


POLICY = LinkPolicy(
    name="tensorlights-one",
    title="TensorLights-One",
    description="servers that share a host send in a fixed order of jobs; all else is FIFO",
    flows="all",
    training="all",
    discipline=discipline,
)
