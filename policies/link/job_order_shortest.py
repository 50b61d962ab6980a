"""Jobs one after another, at every port, those with the smallest model first."""

from policies.link import Discipline, LinkPolicy, Port
from policies.link.job_order import in_order


def discipline(port: Port) -> Discipline:
    """Of equal ones, the first of the file."""
    return in_order(port, sorted(port.jobs, key=lambda job: job.byte))


POLICY = LinkPolicy(
    name="job-order-shortest",
    title="Shortest job first",
    description="flows first, then jobs one after another, the smallest first, at every port",
    flows="all",
    training="all",
    discipline=discipline,
)
