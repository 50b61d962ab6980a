"""From an experiment's jobs to what their ranks know, the same for every engine. Pure."""

from dataclasses import asdict, replace
from typing import Any

from testbed.engine import Run
from testbed.spec import Experiment, TrainingJob
from testbed.spec.job_misfits import FORWARD
from workloads.job_plan import JobPlan


def native_jobs(experiment: Experiment) -> list[tuple[int, TrainingJob]]:
    """The jobs whose ranks are Giveway's own, each with its place in the experiment."""
    return [(at, job) for at, job in enumerate(experiment.training) if job.backend == "native"]


def cluster_plan(run: Run, job: TrainingJob, name: str, workers: int) -> JobPlan:
    """Of a job of a cluster, wherever it will run."""
    made = job_plan(run, job.model_copy(update={"name": name}), run.choice.link_policy.training)
    servers = job.servers if job.has_servers else 0
    return replace(made, workers=workers, servers=servers, retuned=True)


def job_plan(run: Run, job: TrainingJob, band: str | None = None) -> JobPlan:
    """`band`: of a job that the file puts into none."""
    policy = run.choice.link_policy
    steered = run.steers(job.name)
    transfer = run.choice.transfer or job.sending
    told = run.choice.transfer or job.transfer
    reduce = job.reduce.planned if job.reduce is not None else None
    return JobPlan(
        name=job.name,
        aggregation=job.aggregation,
        workers=len(job.host_names),
        servers=len(job.server_names) if band is None else 0,
        layers=job.scaled_profile.layers,
        fusion_byte=job.fusion_byte,
        transfer=transfer.transfer_policy.plain(),
        parted=job.has_servers and told is not None,
        groups=job.groups,
        reads=job.passes == FORWARD,
        update_byte_s=job.update_byte_s,
        rate_bps=run.experiment.topology.rate_bps,
        seed=run.seed,
        compute_ns=job.compute_ns,
        every_ns=job.every_ns or 0,
        racks=job.racks if job.by_rack else (),
        reduce=reduce,
        barrier=job.barrier,
        start_ns=job.start_ns,
        steps=job.steps,
        gradient_byte=job.gradient_byte,
        staleness=job.staleness,
        check=job.check,
        bands=policy.bands,
        band=run.bands[job.name] if band is None else band,
        steered_by=policy.plain() if steered else None,
        control_band=policy.flows if steered else None,  # a few bytes, that all wait for
    )


def plan_as_plain(plan: JobPlan) -> dict[str, Any]:
    """For another process; `plan_from_plain` in workloads/host_process.py reads it."""
    layers = [(one.bytes, one.forward_ns, one.backward_ns) for one in plan.layers]
    return asdict(plan) | {"layers": layers}


def rank_hosts(job: TrainingJob) -> tuple[str, ...]:
    """Where its ranks run: workers, then servers, then hosts that sum."""
    return job.host_names + job.server_names + job.summing_names
