"""A run's cluster from its first arrival to its end, as rows of the tables."""

from collections.abc import Callable, Iterator, Sequence

from basics.resources import GPU, Amounts
from testbed.cluster.master import Master, Prices
from testbed.cluster.moments import Timeline
from testbed.cluster.player import Player, Surroundings
from testbed.engine import Run
from testbed.run_folder import Row
from workloads.busy_job import BusyJob


def mastered(run: Run, jobs: Sequence[BusyJob], time: Timeline, player: Player) -> Master:
    """The mechanism of a cluster whose training jobs an engine plays."""
    experiment, cluster, policy = run.experiment, run.experiment.cluster, run.choice.link_policy
    assert cluster is not None
    assert run.placement is not None
    topology = experiment.topology
    racks = {host: at for at, rack in enumerate(topology.graph.racks) for host in rack}
    around = Surroundings(
        policy.bands,
        policy.training,
        steered=policy.steering is not None,
        rack=tuple(racks[host] for host in experiment.host_names),
        loads=player.loads,
        link_bps=dict(
            zip(
                topology.graph.link_names,
                (link.cable.rate_bps for link in topology.graph.links for _ in range(2)),
                strict=True,
            )
        ),
    )
    return Master(
        jobs,
        topology.hosts,
        cluster.capacity(topology.rate_bps),
        run.placement.scheduler,
        Prices(cluster.checkpoint.suspend_ns, cluster.checkpoint.resume_ns),
        time,
        (player, around),
    )


def jobs_of(run: Run) -> list[BusyJob]:
    experiment, cluster = run.experiment, run.experiment.cluster
    assert cluster is not None
    return cluster.drawn(experiment.topology.rate_bps, experiment.topology.hosts, run.seed)


def played(run: Run, on_time: Callable[[int], None]) -> dict[str, list[Row]]:
    """The tables of the cluster under the run's placement."""
    experiment, cluster = run.experiment, run.experiment.cluster
    assert cluster is not None
    assert run.placement is not None
    topology = experiment.topology
    capacity = cluster.capacity(topology.rate_bps)
    prices = Prices(cluster.checkpoint.suspend_ns, cluster.checkpoint.resume_ns)
    master = Master(jobs_of(run), topology.hosts, capacity, run.placement.scheduler, prices)
    master.run(experiment.duration_ns, on_time)
    return rows(run, master)


def rows(run: Run, master: Master) -> dict[str, list[Row]]:
    experiment, cluster = run.experiment, run.experiment.cluster
    assert cluster is not None
    topology = experiment.topology
    capacity = cluster.capacity(topology.rate_bps)
    return {
        "stretches": list(stretch_rows(master, experiment.host_names)),
        "submissions": list(submission_rows(master, capacity, topology.hosts)),
    }


def stretch_rows(master: Master, hosts: tuple[str, ...]) -> Iterator[Row]:
    first = master.ledger.first_task.tolist()
    for stretch in master.stretches:
        name = master.ledger.jobs[stretch.job].name
        times = (stretch.taken_ns, stretch.start_ns, stretch.end_ns, stretch.free_ns)
        for task, host in zip(stretch.tasks.tolist(), stretch.hosts.tolist(), strict=True):
            yield [name, task - first[stretch.job], hosts[host], *times, stretch.why]


def submission_rows(master: Master, capacity: Amounts, hosts: int) -> Iterator[Row]:
    started: dict[int, int] = {}
    ended: dict[int, int] = {}
    done: dict[int, int] = {}
    for stretch in master.stretches:
        started.setdefault(stretch.job, stretch.start_ns)
        if stretch.why == "finished":
            done[stretch.job] = done.get(stretch.job, 0) + len(stretch.tasks)
            ended[stretch.job] = max(ended.get(stretch.job, 0), stretch.end_ns)
    for number, job in enumerate(master.ledger.jobs):
        finished = done.get(number) == job.tasks
        yield [
            job.name, job.submitted_ns, job.tasks, job.gang, job.demand[GPU], job.duration_ns,
            job.alone_ns(capacity, hosts), job.share(capacity, hosts), job.deadline_ns,
            started.get(number), ended[number] if finished else None,
            _status(master, number, job, finished=finished),
        ]  # fmt: skip


def _status(master: Master, number: int, job: BusyJob, *, finished: bool) -> str:
    if finished:
        return "finished"
    if number in master.rejected:
        return "rejected"
    return "waiting" if master.ledger.waiting[number] == job.tasks else "stopped"
