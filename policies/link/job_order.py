"""Jobs one after another, at every port: a job's packets wait for those of all jobs before it.

After MLNet (HotCloud 2015): in strict order instead of fair shares, jobs are done sooner on
average.
Jobs are told apart by their TCP port, so the order holds within the network as at its ends. Flows
have a class of their own before all jobs, and bare acknowledgements wait with them.

htb has eight levels: seven jobs have one each, more share them evenly, in the order of the jobs.
"""

from collections.abc import Sequence

from policies.link import Discipline, LinkPolicy, Port, ServerPort, ServiceClass, one_queue
from policies.link.discipline import LEVELS

OWN_RATE_BPS = 100_000
JOB_LEVELS = LEVELS - 1


def level(rank: int, jobs: int) -> int:
    """The level of a job at this place in the order, behind the flows."""
    return 1 + (rank if jobs <= JOB_LEVELS else rank * JOB_LEVELS // jobs)


def in_order(port: Port, order: Sequence[ServerPort]) -> Discipline:
    if not order:
        return one_queue()
    flows = ServiceClass("all", rest=True)
    ranked = (
        ServiceClass(f"job-{rank + 1}", level(rank, len(order)), servers=(job,), pushed_to=(job,))
        for rank, job in enumerate(order)
    )
    least_bps = min(OWN_RATE_BPS, port.rate_bps // (2 * (len(order) + 1)))
    return Discipline((flows, *ranked), least_bps=least_bps, acks_with_rest=True)


def discipline(port: Port) -> Discipline:
    """The order of the file, for ever."""
    return in_order(port, port.jobs)


POLICY = LinkPolicy(
    name="job-order",
    title="Jobs in order",
    description="flows first, then jobs one after another, in the order of the file, at every port",
    flows="all",
    training="all",
    discipline=discipline,
)
