"""What the tasks of a live cluster are told: a daemon on each host, and the master of all. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from basics.bands import tos_of
from testbed.engine import Run
from testbed.job_plans import cluster_plan, plan_as_plain
from topologies.plain import as_plain
from workloads.busy_job import BusyJob, job_as_plain
from workloads.jobports import job_port

DAEMON = "workloads.cluster_daemon:main"
MASTER = "testbed.cluster.live_master:main"
STACK_RANK = "workloads.placed_torch:main"


def daemon_config(run: Run, host: str, address: str) -> dict[str, Any]:
    words = tos_of(run.choice.link_policy.bands[0])
    cores, cluster = run.experiment.topology.cores, run.experiment.cluster
    assert cluster is not None
    dies_ns = next((one.at_ns for one in cluster.failures if one.host == host), None)
    return {"host": host, "address": address, "tos": words, "cores": cores, "dies_ns": dies_ns}


def master_config(run: Run, address: Callable[[str], str]) -> dict[str, Any]:
    experiment, policy = run.experiment, run.choice.link_policy
    cluster, topology = experiment.cluster, experiment.topology
    assert cluster is not None
    assert run.placement is not None
    jobs = cluster.drawn(topology.rate_bps, topology.hosts, run.seed)
    band = cluster.checkpoint.band_in(policy.bands, policy.training)
    return {
        "hosts": list(experiment.host_names),
        "addresses": [address(host) for host in experiment.host_names],
        "graph": as_plain(topology.graph),
        "seed": run.seed,
        "capacity": list(cluster.capacity(topology.rate_bps)),
        "jobs": [job_as_plain(job) for job in jobs],
        "plans": {
            job.name: plan_as_plain(
                cluster_plan(run, cluster.jobs[job.work.entry].job, job.name, job.tasks)
            )
            for job in jobs
            if job.work is not None
        },
        "stacks": stacks(run, [job for job in jobs if job.work is not None]),
        "placement": run.placement.placement,
        "chosen": dict(run.placement.options),
        "suspend_ns": cluster.checkpoint.suspend_ns,
        "resume_ns": cluster.checkpoint.resume_ns,
        "bands": list(policy.bands),
        "band": policy.training,
        "steered": policy.steering is not None,
        "checkpoint_priority": policy.bands.index(band),
        "checkpoint_tos": tos_of(band),
        "tos": tos_of(policy.bands[0]),
        "ends": not experiment.sends,
    }


def stacks(run: Run, jobs: Sequence[BusyJob]) -> dict[str, dict[str, Any]]:
    """What the ranks of those jobs are told besides that a real stack plays."""
    experiment, transfer = run.experiment, run.choice.transfer
    told = None if transfer is None else transfer.transfer_policy.plain()
    return {
        job.name: {"port": job_port(len(experiment.training) + at), "transfer": told}
        for at, job in enumerate(jobs)
        if experiment.cluster is not None
        and job.work is not None
        and experiment.cluster.jobs[job.work.entry].job.backend != "native"
    }
