"""TensorLights in both directions: of our own, not of the original.

The order of the file holds for what servers send, as in One, and for what workers send to servers:
at the workers' hosts, and at the port into a host that holds several servers, where the gradients
of all jobs meet.

Bare acknowledgements are ordered nowhere. They carry a server's port too: in the order of jobs,
a job's gradients could be sent only while no job before it pushes, and acknowledged only while none
sends its model; one that computes little would then stop all others.
"""

from policies.link import Discipline, LinkPolicy, Port
from policies.link.tensorlights import one_by_one


def discipline(port: Port) -> Discipline:
    """Ports of servers are in the order of the file."""
    jobs = sorted({*port.servers, *port.pushed_to}, key=lambda server: server.port)
    return one_by_one(
        port,
        [
            {
                "servers": (job,) if job in port.servers else (),
                "pushed_to": (job,) if job in port.pushed_to else (),
            }
            for job in jobs
        ],
        acks_with_rest=True,
    )


POLICY = LinkPolicy(
    name="tensorlights-both",
    title="TensorLights-Both",
    description="models and gradients of jobs that share a port go in a fixed order of jobs",
    flows="all",
    training="all",
    discipline=discipline,
)
