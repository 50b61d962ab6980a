"""The fluid engine: a flow-level simulation of the same experiment, without packets.

It is a simulation and is called one: rates are calculated, not measured. docs/fluid.md says what
it models, docs/agreement.md how far it is from the virtual engine. No root, no kernel, any machine.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from policies.base import marking_ns
from testbed.engine import Performance, Run, Setting, Wiring, topology_of
from testbed.errors import CannotRun
from testbed.fluid import compiled
from testbed.fluid.jobs import Records, RingJob, RingMember
from testbed.fluid.servers import JobOrder, JoinedJob, ServerJob
from testbed.fluid.simulation import Simulation
from testbed.folder import RunFolder
from testbed.seal import sealed
from testbed.spec import Experiment
from testbed.spechosts import DOCKER
from workloads.schedule import schedule_of

NAME = "fluid"
IN_PROCESSES = True  # a run keeps an interpreter busy: several at once need several of those
SAMPLES = 100


def exclusive(wait_s: float = 0) -> AbstractContextManager[None]:
    """Simulations do not disturb each other."""
    return nullcontext()


def cancel() -> None:
    """Nothing to do: runs are processes, and end with their pool."""


def demand(experiment: Experiment) -> None:
    """Refuse what only a kernel can do."""
    if experiment.hosts == DOCKER:
        raise CannotRun("hosts: docker needs `--engine realtime`: a simulation has no containers")
    if experiment.dilation not in ("auto", 1.0):
        raise CannotRun(
            f"dilation: {experiment.dilation} makes no sense in a simulation, whose time is exact "
            "already: leave it out"
        )
    for index, job in enumerate(experiment.training):
        if job.backend != "native":
            raise CannotRun(
                f"training.{index}.backend: {job.backend} is real software, and the fluid engine "
                "only simulates: use `--engine virtual`, or `backend: native`"
            )


def parallel(experiment: Experiment) -> int:
    return len(os.sched_getaffinity(0))


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    compiled.compile_once(say)
    wiring = Wiring(netem=True, offload=False, tcp=experiment.tcp, timer_slack_ns=0)
    return Setting(topology_of(experiment), wiring)


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    records = Records()
    play = partial(perform, run, setting, records, on_time)
    sealed(run, folder, setting, NAME, play, found=records.tables, kernel="none: a simulation")


def perform(
    run: Run, setting: Setting, records: Records, on_time: Callable[[int], None]
) -> Performance:
    """Play a run; its records are then in `records`."""
    experiment = run.experiment
    flows = schedule_of(experiment, run.seed)
    bands = run.choice.link_policy.bands
    jobs = [
        (ServerJob if job.has_servers else RingJob)(run, index, job)
        for index, job in enumerate(experiment.training)
    ]
    ways = [job.ways() for job in jobs]
    simulation = Simulation(
        setting.topology,
        run.choice.link_policy,
        flows,
        [bands.index(run.bands[mix.name]) for mix in experiment.flows],
        [way for some in ways for way in some],
        queue_ns=marking_ns(experiment.topology.rate_bps) if experiment.tcp == "dctcp" else None,
    )
    rings: list[RingMember] = []
    served: list[JoinedJob] = []
    first = 0
    for job, some in zip(jobs, ways, strict=True):
        if isinstance(job, RingJob):
            rings += job.join(simulation, first, records)
        else:
            served.append(job.join(simulation, first, records))
        first += len(some)
    JobOrder(run, simulation, served)

    def sample(number: int) -> None:
        time_ns = simulation.now_ns
        on_time(time_ns)
        carried = np.rint(simulation.carried_byte()).astype(np.int64).tolist()
        for link, by_band in zip(setting.topology.link_names, carried, strict=True):
            for band, count in zip(bands, by_band, strict=True):
                records.write("links", time_ns, link, band, count, 0)
        if number < SAMPLES:
            after_ns = experiment.duration_ns * (number + 1) // SAMPLES
            simulation.at(min(after_ns, experiment.duration_ns - 1), partial(sample, number + 1))

    simulation.at(0, partial(sample, 0))
    simulation.run(experiment.duration_ns)
    for member in rings:
        member.write_transfers()
    started = np.flatnonzero(flows.start_ns < experiment.duration_ns)
    ends_ns = np.rint(simulation.flow_ends_ns())
    for flow in started.tolist():
        records.write("start", flow, int(flows.start_ns[flow]))
        if ends_ns[flow] < experiment.duration_ns:
            records.write("end", flow, int(ends_ns[flow]))
    delay = experiment.topology.delay
    network = {
        "tcp": experiment.tcp,
        "offload": False,
        "delay_asked_ns": delay.ns,
        "delay_strict": delay.strict,
        "netem": True,
        "idle_rtt_ns": 4 * delay.ns,
        "ports": [],
    }
    return Performance(network, measured={}, simulated=True)
