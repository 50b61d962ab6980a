"""What an experiment file may ask of a kernel and not of a simulation: refused, key by key.

A key that would change nothing here is not taken silently: who asked for it would believe the
numbers. What is written out as a default in every resolved file (`offload: auto`) asks for nothing.
"""

from collections.abc import Iterator

from basics import units
from basics.errors import CannotRun
from testbed.engine import packs_beside_cores, told_apart_in_a_cluster
from testbed.fluid.disciplines import refusal
from testbed.fluid.tcp import TICK_NS
from testbed.spec import Experiment, TrainingJob
from testbed.spec.hosts import DOCKER

TCP = ("cubic", "reno", "dctcp", "mltcp")
ELSEWHERE = "use `--engine virtual`"


def demand_simulable(experiment: Experiment) -> None:
    """Raise CannotRun for the first key that only a kernel can honour."""
    for reasons in (of_the_machine, of_jobs, of_policies, of_cluster):
        for reason in reasons(experiment):
            raise CannotRun(reason)


def of_the_machine(experiment: Experiment) -> Iterator[str]:
    if experiment.hosts == DOCKER:
        yield "hosts: docker needs `--engine realtime`: a simulation has no containers"
    if experiment.dilation not in ("auto", 1.0):
        yield (
            f"dilation: {experiment.dilation} makes no sense in a simulation, whose time is exact "
            "already: leave it out"
        )
    if experiment.offload != "auto":
        yield (
            f"offload: {'on' if experiment.offload else 'off'} is about packets, and a simulation "
            f"has none: leave it out, or {ELSEWHERE}"
        )
    if experiment.tcp not in TCP:
        yield (
            f"tcp: {experiment.tcp} is not simulated, only {', '.join(TCP)} are: take one of "
            f"them, or {ELSEWHERE}"
        )
    rto_min_ns = experiment.transport.rto_min_ns
    if rto_min_ns is not None and rto_min_ns < TICK_NS:
        yield (
            f"tcp.rto_min: {units.format_time(rto_min_ns)} is below a tick of the simulated "
            f"kernel, {units.format_time(round(TICK_NS))}: its timers know nothing shorter"
        )
    if experiment.sample is not None:
        yield f"sample.tcp: a simulation has no sockets to ask: leave it out, or {ELSEWHERE}"
    if experiment.on_failure != "end":
        yield (
            f"on_failure: {experiment.on_failure} is for tasks that die, and in a simulation none "
            f"does: leave it out, or {ELSEWHERE}"
        )


def of_jobs(experiment: Experiment) -> Iterator[str]:
    for index, job in enumerate(experiment.training):
        for key, reason in of_job(job):
            yield f"training.{index}.{key}: {reason} (job {job.name})"


def of_job(job: TrainingJob) -> Iterator[tuple[str, str]]:
    if job.backend != "native":
        yield (
            "backend",
            f"{job.backend} is real software, and the fluid engine only simulates: {ELSEWHERE}, or "
            "`backend: native`",
        )
    if job.check:
        yield (
            "check",
            f"true adds real numbers up, and a simulation sends none: leave it out, or {ELSEWHERE}",
        )


def of_cluster(experiment: Experiment) -> Iterator[str]:
    if experiment.cluster is not None and experiment.cluster.trains:
        for index, entry in enumerate(experiment.cluster.jobs):
            for key, reason in of_job(entry.job) if entry.trains else ():
                yield f"cluster.jobs.{index}.{key}: {reason} (jobs {entry.name})"
        for index, choice in enumerate(experiment.policies):
            if choice.link_policy.tells_jobs_apart:
                yield told_apart_in_a_cluster(index, choice)
        yield from packs_beside_cores(experiment)


def of_policies(experiment: Experiment) -> Iterator[str]:
    for index, choice in enumerate(experiment.policies):
        unknown = refusal(choice.link_policy, experiment.kinds_of_ports)
        if unknown is not None:
            yield f"policies.{index}: {choice.policy} has what is not simulated: {unknown}"
