"""Jobs one after another, at every port, those whose servers have the least left to send first.

Looked at every period: a model that is nearly out is finished before another is begun. Jobs whose
servers send nothing now, and jobs without servers, come after them, in the order of the file.
"""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port, ServerPort, Situation
from policies.link.job_order import in_order

PERIOD_NS = 5_000_000


def discipline(port: Port, situation: Situation, period_ns: int) -> Discipline:
    """Of equal ones, the first of the file."""

    def key(job: ServerPort) -> tuple[bool, int]:
        left = situation.everywhere_byte.get(job.job, 0)
        return left == 0, left

    return in_order(port, sorted(port.jobs, key=key))


POLICY = LinkPolicy(
    name="job-order-least",
    title="Least remaining first",
    description="flows first, then jobs one after another, who has least left first, at every port",
    flows="all",
    training="all",
    discipline=discipline,
    options={"period": Option("how often it looks", 1_000, 10**13, PERIOD_NS, unit="ns")},
    acts=True,
    watches=True,
)
