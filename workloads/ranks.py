"""The ranks of a job, made for a world: which class plays which rank."""

from policies.link import rebuilt
from workloads.agreed import AgreedWorker
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.part_server import PartServer
from workloads.parted import PartedWorker
from workloads.rank import Rank
from workloads.rank_records import Sink
from workloads.reduced import ReducedWorker, SummingHost, SummingServer
from workloads.served import ServedWorker
from workloads.server import ParameterServer
from workloads.world import World

AnyRank = Rank | ParameterServer | SummingHost


def make_rank(
    plan: JobPlan, number: int, world: World, sink: Sink, cores: Cores | None = None
) -> AnyRank:
    """Begin a worker at the plan's start; a server waits to be asked, a host that sums for sums."""
    if number >= plan.workers + plan.servers:
        return SummingHost(plan, number, world)
    if number >= plan.workers:
        return _server_kind(plan)(plan, number, world, sink)
    steering = rebuilt(plan.steered_by).steering if plan.steered_by else None
    worker = _worker_kind(plan)(plan, number, world, sink, steering)
    worker.cores = cores
    return worker


def _server_kind(plan: JobPlan) -> type[ParameterServer]:
    if plan.reduce is not None:
        return SummingServer
    return PartServer if plan.parted else ParameterServer


def _worker_kind(
    plan: JobPlan,
) -> type[AgreedWorker] | type[ServedWorker] | type[PartedWorker] | type[ReducedWorker]:
    if not plan.has_servers:
        return AgreedWorker
    if plan.reduce is not None:
        return ReducedWorker
    return PartedWorker if plan.parted else ServedWorker
