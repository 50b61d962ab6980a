"""Training jobs of a cluster in a simulation: ranks that come and go, streams that are laid anew.

Every job has its own streams for the whole run, as many as it could need; what they connect is
decided whenever it is placed. A checkpoint is one message on a stream between two hosts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from testbed.cluster.player import HearsOfJobs
from testbed.engine import Run
from testbed.fluid.simulation import Simulation
from testbed.fluid.ways import Way
from testbed.fluid.world import At, JobStreams, Records, SimulatedJob, on_hosts
from testbed.job_plans import cluster_plan
from workloads.agreed import AgreedWorker
from workloads.busy_job import BusyJob
from workloads.compute import Iteration
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.jobports import job_port
from workloads.rank import Rank
from workloads.training_work import TrainingWork


class ClusterStreams:
    """Which streams of the simulation a job has: its own, then one a worker for checkpoints."""

    def __init__(self, plan: JobPlan, work: TrainingWork, port: int, first: int) -> None:
        self.plan, self.work, self.port, self.first = plan, work, port, first
        own = len(JobStreams(plan, range(plan.ranks), port, first).ways)
        self.checkpoints = first + own
        self.count = own + plan.workers

    def laid(self, hosts: Sequence[int], plan: JobPlan) -> JobStreams:
        return JobStreams(plan, self.work.rank_hosts(hosts), self.port, self.first)


class PlacedJob:
    """A job's ranks on one placement; hears when they rest. Once it is over they do nothing."""

    def __init__(
        self, told: Callable[[int], None], iterated: Callable[[Iteration], None], at: At
    ) -> None:
        self.job: SimulatedJob  # set by whoever makes it
        self._told, self._iterated, self._at = told, iterated, at
        self._resting = 0
        self.over = False

    def at(self, time_ns: float, callback: Callable[[], object]) -> None:
        self._at(time_ns, partial(self._unless_over, callback))

    def _unless_over(self, callback: Callable[..., object], *told: int) -> None:
        if not self.over:
            callback(*told)

    def cores(self, of: Mapping[int, Cores]) -> Mapping[int, Cores]:
        """The same ones; what its ranks compute there is heard of while they are there."""
        return {at: HeardCores(cores, self._unless_over) for at, cores in of.items()}

    @property
    def next_iteration(self) -> int:
        """The first that none of its workers has begun."""
        return max(rank.next_iteration for rank in self.job.workers)

    def iterated(self, rank: Rank, over: Iteration) -> None:
        if rank.number == 0:
            self._iterated(over)

    def rested(self, rank: Rank) -> None:
        self._resting += 1
        if self._resting == len(self.job.workers):
            self._told(rank.next_iteration)


class HeardCores(Cores):
    """Cores of a host for one placement: a stretch that it began uses its core to the end."""

    def __init__(self, cores: Cores, unless_over: Callable[..., None]) -> None:
        self._cores, self._unless_over = cores, unless_over

    def compute(self, start_ns: int, length_ns: int, done: Callable[[int], None]) -> None:
        self._cores.compute(start_ns, length_ns, partial(self._unless_over, done))


class FluidPlayer:
    def __init__(self, run: Run, jobs: Sequence[BusyJob], records: Records, first: int) -> None:
        """`first`: of its streams, which come after those of other jobs."""
        self.told: HearsOfJobs  # set by whoever makes it
        self.cores: Mapping[int, Cores] | None = None
        self._simulation: Simulation
        self._records = records
        self._host_names = run.experiment.host_names
        self._streams: dict[int, ClusterStreams] = {}
        self._placed: dict[int, PlacedJob] = {}
        self._transfers: dict[int, int] = {}  # made by each job so far, where they are numbered
        self._packs = run.placement is not None and run.placement.scheduler.pack > 1
        self._gpus: dict[int, list[Cores]] = {}  # of each worker, where jobs may share them
        self._fetching: dict[int, set[int]] = {}  # streams for checkpoints that are busy
        self._hosts_fail = bool(run.experiment.cluster and run.experiment.cluster.failures)
        cluster, policy = run.experiment.cluster, run.choice.link_policy
        assert cluster is not None
        band = cluster.checkpoint.band_in(policy.bands, policy.training)
        self._level = policy.bands.index(band)
        port = len(run.experiment.training)
        self._first = first
        for number, job in enumerate(jobs):
            if job.work is None:
                continue
            plan = cluster_plan(run, cluster.jobs[job.work.entry].job, job.name, job.tasks)
            made = ClusterStreams(plan, job.work, job_port(port), first)
            self._streams[number] = made
            first += made.count
            port += 1
        self._end = first

    @property
    def ways(self) -> list[Way]:
        """For now; each is laid anew before it is used."""
        return [Way(0, 1, 0, 0)] * (self._end - self._first)

    def use(self, simulation: Simulation, cores: Mapping[int, Cores] | None) -> None:
        self._simulation, self.cores = simulation, cores

    # ---- what the mechanism asks for

    def begin(self, job: int, hosts: Sequence[int], first: int, band: str) -> None:
        own, now_ns = self._streams[job], self._simulation.now_ns
        plan = replace(
            own.plan,
            start_ns=now_ns,
            steps=own.work.iterations,
            band=band,
            first_iteration=first,
            first_transfer=self._transfers.get(job, 0),
        )
        streams = own.laid(hosts, plan)
        self._simulation.lay(own.first, streams.ways)
        placed = PlacedJob(
            partial(self.told.rested, job),
            lambda over: self.told.iterated(job, over.iteration, over.end_ns - over.start_ns),
            self._simulation.at,
        )
        cores = self._gpus_of(job) if self._packs else self.cores and on_hosts(streams, self.cores)
        at = None
        if self._hosts_fail:
            cores, at = cores and placed.cores(cores), placed.at
        placed.job = SimulatedJob(streams, self._simulation, self._records, cores=cores, at=at)
        for rank in placed.job.workers:
            rank.watcher = placed
        self._placed[job] = placed

    def _gpus_of(self, job: int) -> Mapping[int, Cores]:
        """Two jobs that compute on one GPU at once have half of its speed each."""
        if job not in self._gpus:
            own = range(self._streams[job].plan.workers)
            self._gpus[job] = [Cores(1, self._simulation.at) for _ in own]
        return dict(enumerate(self._gpus[job]))

    def share(self, job: int, other: int) -> None:
        self._gpus[job] = self._gpus[other]

    def rest(self, job: int) -> None:
        placed = self._placed[job]
        before = placed.next_iteration
        for rank in placed.job.workers:
            rank.rest_before(before)

    def shift(self, job: int, by_ns: int) -> None:
        placed = self._placed[job]
        iteration = placed.next_iteration
        for rank in placed.job.workers:
            rank.shift(iteration, by_ns)

    def end(self, job: int) -> None:
        self._gpus.pop(job, None)
        for rank in self._placed.pop(job).job.workers:
            rank.write_transfers()
            if isinstance(rank, AgreedWorker):
                self._transfers[job] = rank.next_transfer

    def abandon(self, job: int) -> None:
        own, placed = self._streams[job], self._placed.pop(job, None)
        if placed is not None:
            placed.over = True
        self._gpus.pop(job, None)
        self._fetching.pop(job, None)
        self._simulation.silence(own.first, own.count)

    def change_band(self, job: int, band: str) -> None:
        if job in self._placed:  # else its ranks are made in that band
            for rank in self._placed[job].job.workers:
                rank.change_band(band)

    def fetch(self, job: int, source: int, target: int, done: Callable[[], None]) -> None:
        own, simulation = self._streams[job], self._simulation
        busy = self._fetching.setdefault(job, set())
        stream = next(at for at in range(own.checkpoints, own.first + own.count) if at not in busy)
        busy.add(stream)
        start_ns, byte = simulation.now_ns, own.work.checkpoint_byte

        def arrived() -> None:
            busy.discard(stream)
            self._records.write(
                "checkpoints", own.plan.name, self._host_names[source], self._host_names[target],
                byte, self._level, start_ns, simulation.now_ns,
            )  # fmt: skip
            simulation.at(simulation.now_ns, done)

        simulation.lay(stream, [Way(source, target, own.port, self._level)])
        simulation.on_arrival[stream] = arrived
        simulation.post(stream, byte)

    def forget(self, job: int, hosts: Sequence[int]) -> None:
        """A simulation keeps no bytes."""

    def finish(self) -> None:
        """The run is over."""
        for job in list(self._placed):
            self.end(job)

    # ---- what schedulers may know

    def loads(self, job: int, hosts: tuple[int, ...]) -> Mapping[str, int]:
        own, simulation = self._streams[job], self._simulation
        streams = own.laid(hosts, own.plan)
        pairs = list(streams.data)
        ways = streams.ways[: len(pairs)]
        found: dict[str, int] = {}
        names = simulation.topology.link_names
        paths = simulation.ways.paths_of(np.arange(own.first, own.first + len(ways)), ways)
        for pair, path in zip(pairs, paths, strict=True):
            for link in path:
                found[names[link]] = found.get(names[link], 0) + own.work.between.get(pair, 0)
        return found
