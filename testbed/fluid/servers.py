"""Parameter-server jobs in a simulation: the same members as the live tasks, without sockets.

Each worker and server have a stream each way. A policy that orders jobs at the hosts that hold
several servers gives their streams to workers a level at the first link, and may change it during
the run: what its live agent tells the kernel, this tells the simulation.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

from policies.base import Moment
from testbed.engine import Run
from testbed.fluid.jobs import Records
from testbed.fluid.simulation import Simulation, Way
from testbed.psjobs import servers_by_host
from testbed.spec import TrainingJob
from workloads.jobports import job_port
from workloads.parameter_server import Push, shards
from workloads.ps_member import ServerMember, WorkerMember


class ServerJob:
    """The connections of a job, in this order: by worker, to each server; then back likewise."""

    def __init__(self, run: Run, index: int, job: TrainingJob) -> None:
        self.job = job
        self.port = job_port(index)
        self.level = run.choice.link_policy.bands.index(run.bands[job.name])
        hosts = {name: number for number, name in enumerate(run.experiment.host_names)}
        self.workers = [hosts[name] for name in job.host_names]
        self.servers = [hosts[name] for name in job.server_names]

    def ways(self) -> list[Way]:
        pairs = [(worker, server) for worker in self.workers for server in self.servers]
        up = [Way(worker, server, self.port, self.level) for worker, server in pairs]
        down = [Way(server, worker, self.port, self.level) for worker, server in pairs]
        return up + down

    def join(self, simulation: Simulation, first: int, records: Records) -> "JoinedJob":
        return JoinedJob(self, simulation, first, records)


class JoinedJob:
    """The members of a job, and their streams from `first` on."""

    def __init__(
        self, plan: ServerJob, simulation: Simulation, first: int, records: Records
    ) -> None:
        self.plan = plan
        self._simulation = simulation
        job, servers, workers = plan.job, len(plan.servers), len(plan.workers)
        profile = job.scaled_profile
        self.layers = profile.layers
        self.shard_byte = [length for _, length in shards(profile.total_byte, servers)]
        self._first_down = first + workers * servers
        self.servers = [Server(self, shard, records) for shard in range(servers)]
        self.workers = [Worker(self, rank, records) for rank in range(workers)]
        for rank in range(workers):
            for shard in range(servers):
                up, down = first + rank * servers + shard, self.down(rank, shard)
                simulation.on_arrival[up] = self.servers[shard].hears(rank)
                simulation.on_arrival[down] = partial(self.workers[rank].model_arrived, shard)
                self.workers[rank].streams.append(up)
            simulation.at(job.start_ns, self.workers[rank].begin)

    def down(self, rank: int, shard: int) -> int:
        """The stream from a server to a worker."""
        return self._first_down + rank * len(self.plan.servers) + shard

    def now_ns(self) -> int:
        return self._simulation.now_ns

    def at(self, time_ns: float, callback: Callable[[], None]) -> None:
        self._simulation.at(time_ns, callback)

    def post(self, stream: int, size_byte: int) -> None:
        self._simulation.post(stream, size_byte)

    def remaining_byte(self, shard: int) -> int:
        """What workers have not got yet of what a server is sending them."""
        servers, workers = len(self.plan.servers), len(self.workers)
        last = self._first_down + workers * servers
        return round(self._simulation.unsent_byte(slice(self.down(0, shard), last, servers)))


class Server(ServerMember):
    def __init__(self, joined: JoinedJob, shard: int, records: Records) -> None:
        job = joined.plan.job
        self._shard_byte = joined.shard_byte[shard]
        workers = len(joined.plan.workers)
        super().__init__(job.name, shard, workers, self._shard_byte, job.staleness, records)
        self._joined = joined
        self._coming: dict[int, deque[int]] = defaultdict(deque)  # sizes of pushes under way

    def announce(self, rank: int, size_byte: int) -> None:
        """A worker has sent so many bytes; a gradient may come in several pushes."""
        self._coming[rank].append(size_byte)

    def hears(self, rank: int) -> Callable[[], None]:
        got = 0

        def heard() -> None:
            nonlocal got
            got += self._coming[rank].popleft()
            if got >= self.due_byte(rank):
                got -= self.due_byte(rank)
                self.arrived(rank, self._joined.now_ns())

        return heard

    def send_model(self, worker: int) -> None:
        self._joined.post(self._joined.down(worker, self._shard), self._shard_byte)


class Worker(WorkerMember):
    def __init__(self, joined: JoinedJob, rank: int, records: Records) -> None:
        job = joined.plan.job
        super().__init__(
            job.name,
            rank,
            joined.layers,
            len(joined.plan.servers),
            fusion_byte=job.fusion_byte,
            steps=job.steps,
            priority=joined.plan.level,
            journal=records,
        )
        self._joined = joined
        self.streams: list[int] = []

    def now_ns(self) -> int:
        return self._joined.now_ns()

    def at(self, time_ns: float, callback: Callable[[], None]) -> None:
        self._joined.at(time_ns, callback)

    def push(self, push: Push) -> None:
        self._joined.servers[push.server].announce(self._rank, push.bytes)
        self._joined.post(self.streams[push.server], push.bytes)


class JobOrder:
    """What a policy's agent does: jobs whose servers share a host get their levels there."""

    def __init__(self, run: Run, simulation: Simulation, jobs: list[JoinedJob]) -> None:
        policy = run.choice.link_policy
        self._priority_of = policy.priority_of
        self._simulation = simulation
        self._period_ns = policy.period_ns
        self._watches = policy.watches
        self._levels: dict[tuple[str, int], int] = {}  # of each job's servers, as last told
        names = run.experiment.host_names
        shared = {
            names.index(host): servers
            for host, servers in servers_by_host(run.experiment).items()
            if len(servers) > 1
        }
        self._places = {
            host: (servers, [(job, shard) for job, shard in placed(jobs) if at(job, shard) == host])
            for host, servers in shared.items()
        }
        if self._priority_of is not None:
            simulation.at(0, self._turn)

    def _turn(self) -> None:
        now_ns = self._simulation.now_ns
        assert self._priority_of is not None
        for servers, parts in self._places.values():
            remaining = (
                {job.plan.job.name: job.remaining_byte(shard) for job, shard in parts}
                if self._watches
                else {}
            )
            moment = Moment(now_ns, self._period_ns, remaining)
            for job, shard in parts:
                level = self._priority_of(servers, job.plan.job.name, moment)
                if self._levels.get((job.plan.job.name, shard)) == level:
                    continue
                self._levels[job.plan.job.name, shard] = level
                for rank in range(len(job.workers)):
                    self._simulation.change_first_level(job.down(rank, shard), level)
        if self._period_ns:
            self._simulation.at((now_ns // self._period_ns + 1) * self._period_ns, self._turn)


def placed(jobs: list[JoinedJob]) -> list[tuple[JoinedJob, int]]:
    """Every server of every job."""
    return [(job, shard) for job in jobs for shard in range(len(job.servers))]


def at(job: JoinedJob, shard: int) -> int:
    return job.plan.servers[shard]
