"""The fluid engine: a flow-level simulation of the same experiment, without packets.

It is a simulation and is called one: rates are calculated, not measured. docs/fluid.md says what
it models, docs/agreement.md how far it is from the virtual engine. No root, no kernel, any machine.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from policies.link.port import marking_ns
from testbed.cluster import play as cluster
from testbed.engine import Performance, Run, Setting, Wiring, topology_of
from testbed.fluid import compiled
from testbed.fluid.cluster_player import FluidPlayer
from testbed.fluid.job_order import JobOrder
from testbed.fluid.memory import SAMPLES, demand_memory, free_byte, needed_byte
from testbed.fluid.refusals import demand_simulable
from testbed.fluid.simulation import Simulation
from testbed.fluid.state import IDLE
from testbed.fluid.transport import held_transport
from testbed.fluid.validated import cautions
from testbed.fluid.world import JobStreams, Records, SimulatedJob, on_hosts
from testbed.job_plans import job_plan, rank_hosts
from testbed.run_folder import RunFolder
from testbed.sealing import sealed
from testbed.spec import Experiment
from workloads.cores import Cores
from workloads.jobports import job_port
from workloads.schedule import Schedule, schedule_of

NAME = "fluid"
IN_PROCESSES = True  # a run keeps an interpreter busy: several at once need several of those


def exclusive(wait_s: float = 0) -> AbstractContextManager[None]:
    """Simulations do not disturb each other."""
    return nullcontext()


def cancel() -> None:
    """Nothing to do: runs are processes, and end with their pool."""


def demand(experiment: Experiment) -> None:
    """Refuse what only a kernel can do, and what this machine has no memory for."""
    demand_simulable(experiment)
    if experiment.sends:
        demand_memory(experiment)


def parallel(experiment: Experiment) -> int:
    """As many runs at once as there are processors, or memory."""
    processors = len(os.sched_getaffinity(0))
    if not experiment.sends:
        return processors
    return max(1, min(processors, free_byte() // needed_byte(experiment)))


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    if experiment.sends:
        compiled.compile_once(say)
    for caution in cautions(experiment):
        say(caution)
    return Setting(topology_of(experiment), Wiring(tcp=experiment.tcp))


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    records = Records()
    play = partial(perform, run, setting, records, on_time)
    with no_collections():
        sealed(run, folder, setting, NAME, play, found=records.tables, kernel="none: a simulation")


def perform(
    run: Run, setting: Setting, records: Records, on_time: Callable[[int], None]
) -> Performance:
    """Play a run; its records are then in `records`."""
    if run.experiment.cluster is not None and not run.experiment.cluster.trains:
        records.tables.update(cluster.played(run, on_time))
    lost = cluster.losses(run) if run.experiment.cluster is not None else []
    if not run.experiment.sends:
        return Performance({}, measured={}, simulated=True, lost=lost)
    return replace(send(run, setting, records, on_time), lost=lost)


def send(
    run: Run, setting: Setting, records: Records, on_time: Callable[[int], None]
) -> Performance:
    """Play what goes over the network, and the cluster that sends some of it."""
    experiment = run.experiment
    flows = schedule_of(experiment, run.seed)
    bands = run.choice.link_policy.bands
    hosts = {name: number for number, name in enumerate(experiment.host_names)}
    jobs: list[JobStreams] = []
    first = 0
    for index, job in enumerate(experiment.training):
        places = [hosts[name] for name in rank_hosts(job)]
        jobs.append(JobStreams(job_plan(run, job), places, job_port(index), first))
        first += len(jobs[-1].ways)
    lists = [job.step_lists() for job in jobs]
    trains = experiment.cluster is not None and experiment.cluster.trains
    arriving = cluster.jobs_of(run) if trains else []
    player = FluidPlayer(run, arriving, records, first) if trains else None
    simulation = Simulation(
        setting.topology,
        run.choice.link_policy,
        flows,
        [bands.index(run.bands[mix.name]) for mix in experiment.flows],
        [way for job in jobs for way in job.ways] + (player.ways if player else []),
        mark_ns=marking_ns(experiment.topology.rate_bps) if experiment.tcp == "dctcp" else 0,
        step_lists=[one for own in lists for one in own],
        seed=run.seed,
        transport=experiment.transport,
        flow_demotions=[
            [(one.after_byte, bands.index(one.to)) for one in run.demotions(mix)]
            for mix in experiment.flows
        ],
    )
    players = iter(simulation.players)
    count = experiment.topology.cores
    cores = {host: Cores(count, simulation.at) for host in hosts.values()} if count else None
    joined = [
        SimulatedJob(
            job, simulation, records, [next(players) for _ in own], cores and on_hosts(job, cores)
        )
        for job, own in zip(jobs, lists, strict=True)
    ]
    JobOrder(run, simulation, joined)
    master = None
    if player is not None:
        player.use(simulation, cores)
        master = cluster.mastered(run, arriving, simulation, player)
        assert master.trainers is not None
        player.told, master.trainers.gpus = master.trainers, player
    link_names = setting.topology.link_names

    def sample(number: int) -> None:
        time_ns = simulation.now_ns
        on_time(time_ns)
        carried = np.rint(simulation.carried_byte()).astype(np.int64).tolist()
        records.tables["links"] += [
            (time_ns, link, band, count, 0)
            for link, by_band in zip(link_names, carried, strict=True)
            for band, count in zip(bands, by_band, strict=True)
        ]
        if number < SAMPLES:
            after_ns = experiment.duration_ns * (number + 1) // SAMPLES
            simulation.at(min(after_ns, experiment.duration_ns - 1), partial(sample, number + 1))

    simulation.at(0, partial(sample, 0))
    with no_collections():
        simulation.run(experiment.duration_ns)
    for rank in (rank for one in joined for rank in one.workers):
        rank.write_transfers()
    if player is not None and master is not None:
        player.finish()
        master.close(experiment.duration_ns)
        records.tables.update(cluster.rows(run, master))
    for table, times_ns in (
        ("start", flows.start_ns),
        ("end", np.rint(simulation.flow_ends_ns())),
        ("acknowledged", np.rint(simulation.flow_acks_ns())),
    ):
        known = np.flatnonzero(times_ns < experiment.duration_ns)
        of_known = times_ns[known].astype(np.int64)
        records.tables[table] = list(zip(known.tolist(), of_known.tolist(), strict=True))
    for flow, received in unfinished(simulation, flows):
        records.write("unfinished", flow, received)
    delay = experiment.topology.delay
    # Only what is true of a simulation: it has no packets to bundle and no ports to read back, and
    # a round trip is calculated, not measured.
    network: dict[str, Any] = {
        **held_transport(experiment.transport),
        "delay_asked_ns": delay.ns,
        "delay_strict": delay.strict,
    }
    return Performance(network, measured={}, simulated=True, cautions=cautions(experiment))


@contextmanager
def no_collections() -> Iterator[None]:
    """Records are many and in no cycles: looking for those among them takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def unfinished(simulation: Simulation, flows: Schedule) -> Iterator[tuple[int, int]]:
    """Every flow under way, and what of it has passed its bottleneck."""
    c = simulation.state.c
    sending = np.flatnonzero((c["flow"] >= 0) & (c["phase"] > IDLE))
    for one in sending[np.argsort(c["flow"][sending])].tolist():
        flow = int(c["flow"][one])
        yield flow, max(0, int(flows.size_byte[flow] - simulation.unsent_byte([one])))
