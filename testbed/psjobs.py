"""Parameter-server jobs on a live network: which tasks each host's process serves.

Pure: from an experiment to the configuration of one process a host (workloads/ps_tasks.py).
"""

from collections.abc import Callable
from typing import Any

from policies import ServerPort
from policies.base import tos_of
from testbed.engine import Run
from testbed.spec import Experiment, TrainingJob
from workloads.jobports import job_port
from workloads.ports import worker_source

TARGET = "workloads.ps_tasks:main"
MODULE = "workloads.ps_tasks"


def server_jobs(experiment: Experiment) -> list[tuple[int, TrainingJob]]:
    """The parameter-server jobs, each with its place in the experiment."""
    return [(at, job) for at, job in enumerate(experiment.training) if job.has_servers]


def servers_by_host(experiment: Experiment) -> dict[str, tuple[ServerPort, ...]]:
    """The servers that each host holds, in the order of the jobs."""
    found: dict[str, list[ServerPort]] = {}
    for at, job in server_jobs(experiment):
        for host in job.server_names:
            found.setdefault(host, []).append(ServerPort(job.name, job_port(at)))
    return {host: tuple(servers) for host, servers in found.items()}


def host_configs(
    run: Run, address: Callable[[str], str], *, routed: bool = False
) -> dict[str, dict[str, Any]]:
    """What the process of each host with servers or workers is told.

    `routed`: there are several ways, so who connects from which port is not left to luck.
    """
    jobs = server_jobs(run.experiment)
    hosts: dict[str, dict[str, Any]] = {}

    def config(host: str) -> dict[str, Any]:
        empty = {"address": address(host), "jobs": [], "servers": [], "workers": []}
        return hosts.setdefault(host, empty)

    def place(host: str, described: dict[str, Any]) -> int:
        """Where the host's process finds this job; it is told of the jobs that it serves only."""
        known = config(host)["jobs"]
        if described not in known[-1:]:
            known.append(described)
        return len(known) - 1

    turn = 0
    for at, job in jobs:
        described = described_job(run, at, job, address)
        if routed:
            ranks = range(len(job.host_names))
            described["sources"] = [worker_source(run.seed, job.name, rank) for rank in ranks]
        for shard, host in enumerate(job.server_names):
            config(host)["servers"].append((place(host, described), shard))
        for rank, host in enumerate(job.host_names):
            config(host)["workers"].append((place(host, described), rank, turn))
            turn += 1
    go_on = run.experiment.on_failure == "continue"
    for made in hosts.values():
        made |= {"turns": turn, "go_on": go_on, "board": None, "publish_ns": 0}
    return dict(sorted(hosts.items(), key=lambda pair: run.experiment.host_names.index(pair[0])))


def described_job(
    run: Run, at: int, job: TrainingJob, address: Callable[[str], str]
) -> dict[str, Any]:
    band = run.bands[job.name]
    return {
        "name": job.name,
        "port": job_port(at),
        "tos": tos_of(band),
        "priority": run.choice.link_policy.bands.index(band),
        "servers": [address(host) for host in job.server_names],
        "workers": [address(host) for host in job.host_names],
        "layers": [
            (layer.bytes, layer.forward_ns, layer.backward_ns)
            for layer in job.scaled_profile.layers
        ],
        "fusion_byte": job.fusion_byte,
        "start_ns": job.start_ns,
        "steps": job.steps,
        "staleness": job.staleness,
        "check": job.check,
    }
