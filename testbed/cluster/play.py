"""A run's cluster from its first arrival to its end, as rows of the tables."""

from collections.abc import Callable, Sequence
from functools import partial

from basics.units import format_time
from testbed.cluster.master import Master
from testbed.cluster.moments import Timeline
from testbed.cluster.player import Player, Surroundings
from testbed.cluster.prices import Prices
from testbed.cluster.rows import tables
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
    master = Master(
        jobs,
        topology.hosts,
        cluster.capacity(topology.rate_bps),
        run.placement.scheduler,
        Prices(cluster.checkpoint.suspend_ns, cluster.checkpoint.resume_ns),
        time,
        (player, around),
    )
    fail(run, master)
    return master


def fail(run: Run, master: Master) -> None:
    """Hosts die when the file says so."""
    assert run.experiment.cluster is not None
    for one in run.experiment.cluster.failures:
        master.at(one.at_ns, partial(master.lose, run.experiment.host_names.index(one.host)))


def losses(run: Run) -> list[str]:
    """What is said of those in a simulation, as of tasks that died."""
    assert run.experiment.cluster is not None
    failures = run.experiment.cluster.failures
    return [f"{one.host} died at {format_time(one.at_ns)}" for one in failures]


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
    fail(run, master)
    master.run(experiment.duration_ns, on_time)
    return rows(run, master)


def rows(run: Run, master: Master) -> dict[str, list[Row]]:
    experiment, cluster = run.experiment, run.experiment.cluster
    assert cluster is not None
    topology = experiment.topology
    return tables(master, cluster.capacity(topology.rate_bps), experiment.host_names)
