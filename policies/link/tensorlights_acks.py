"""TensorLights, One, with acknowledgements left alone: of our own, not of the original.

The original tells packets apart by the server's port, which bare acknowledgements carry too: those
of gradients that a server gets wait behind the models of all jobs before its own, and the gradients
with them.
"""

from policies.link import Discipline, LinkPolicy, Port
from policies.link.tensorlights import in_order


def discipline(port: Port) -> Discipline:
    """The order of the file, for ever, for all that is no bare acknowledgement."""
    return in_order(port, range(len(port.servers)), acks_with_rest=True)


POLICY = LinkPolicy(
    name="tensorlights-acks",
    title="TensorLights-Acks",
    description="as tensorlights-one, and bare acknowledgements wait for no job's model",
    flows="all",
    training="all",
    discipline=discipline,
)
