"""Jobs of a cluster: what each waited and took, and how much of the cluster was used."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import compare
from analysis.compare import Comparison, Pair
from analysis.folder import Plan, Results, SealedRun
from analysis.metrics import CLUSTER, Floats

GPU_MILLI = 1000.0


@dataclass(frozen=True)
class ClusterRows:
    """The rows of each policy, all seeds in one table, and what comes out of comparing them."""

    tables: Mapping[str, pd.DataFrame]
    measured: Comparison


def compared(results: Results, pairs: Iterable[Pair], resamples: int) -> ClusterRows | None:
    """None where there is no cluster."""
    plan = results.plan
    if plan.cluster is None:
        return None
    tables = {
        policy.label: pd.concat(
            [job_values(run, plan).assign(seed=run.seed) for run in results.of(policy.label)],
            ignore_index=True,
        )
        for policy in plan.policies
    }
    return ClusterRows(tables, compare.compared(CLUSTER, tables, plan.seeds, pairs, resamples))


def job_values(run: SealedRun, plan: Plan) -> pd.DataFrame:
    """One row a job that came in the window."""
    jobs, stretches, sent = map(run.table, ("submissions", "stretches", "checkpoints"))
    packs = run.table("packs")
    submitted, started, ended, deadline = (
        jobs[name].to_numpy(dtype=float)
        for name in ("submitted_ns", "started_ns", "ended_ns", "deadline_ns")
    )
    found = pd.DataFrame(
        {
            "job": jobs["job"],
            "completion_ns": ended - submitted,
            "queueing_ns": started - submitted,
            "met": np.where(np.isnan(deadline), np.nan, ended <= deadline),
            "fairness": fairness(jobs, plan.duration_ns),
            "suspended_ns": suspended(jobs, stretches),
            **trained(jobs, run.table("iterations")),
            "status": jobs["status"],
            "makespan_ns": makespan(jobs),
            "gpu_use": gpu_use(jobs, stretches, packs, plan),
            "checkpoint_byte": sent["size_byte"].sum() if len(sent) else np.nan,
            "checkpoint_ns": (sent["end_ns"] - sent["start_ns"]).mean() if len(sent) else np.nan,
        }
    )
    begin, end = plan.window_ns
    return found[(submitted >= begin) & (submitted <= end)]


def trained(jobs: pd.DataFrame, iterations: pd.DataFrame) -> dict[str, Floats]:
    """Of each job that trains: its mean iteration, and how much of it its workers compute."""
    whole = iterations.assign(length_ns=iterations["end_ns"] - iterations["start_ns"])
    by_job = whole.groupby("job")[["length_ns", "compute_ns"]]
    means = by_job.mean().reindex(jobs["job"])
    length, compute = (means[name].to_numpy(dtype=float) for name in ("length_ns", "compute_ns"))
    return {"iteration_ns": length, "computing": compute / length}


def makespan(jobs: pd.DataFrame) -> float:
    """From the first arrival until all are done; none if one is not."""
    taken = jobs[jobs["status"] != "rejected"]
    if not len(taken) or (taken["status"] != "finished").any():
        return float("nan")
    return float(taken["ended_ns"].max() - taken["submitted_ns"].min())


def gpu_use(jobs: pd.DataFrame, stretches: pd.DataFrame, packs: pd.DataFrame, plan: Plan) -> float:
    """GPUs that several jobs hold together count once."""
    gpus = plan.cluster["capacity"]["gpu"] * plan.cluster["hosts"] if plan.cluster else 0
    if not gpus or not len(stretches):
        return float("nan")
    milli = jobs.set_index("job")["gpu_milli"]
    asked = stretches["job"].map(milli).to_numpy(dtype=float)
    held_ns = (stretches["free_ns"] - stretches["taken_ns"]).to_numpy(dtype=float)
    again = packs["job"].map(milli * jobs.set_index("job")["tasks"]).to_numpy(dtype=float)
    shared_ns = (packs["end_ns"] - packs["start_ns"]).to_numpy(dtype=float)
    span_ns = float(stretches["free_ns"].max() - jobs["submitted_ns"].min())
    return float(((asked * held_ns).sum() - (again * shared_ns).sum()) / (gpus * span_ns))


def suspended(jobs: pd.DataFrame, stretches: pd.DataFrame) -> Floats:
    """Of each job, the time between its tasks' stretches, mean over its tasks."""
    tasks = stretches.groupby(["job", "task"], sort=False)
    worked = tasks["end_ns"].max() - tasks["start_ns"].min()
    idle = (
        worked
        - (stretches["end_ns"] - stretches["start_ns"])
        .groupby([stretches["job"], stretches["task"]], sort=False)
        .sum()
    )
    return np.asarray(jobs["job"].map(idle.groupby(level="job").mean()), dtype=float)


def fairness(jobs: pd.DataFrame, duration_ns: int) -> Floats:
    """Completion time over that with an equal share of the cluster."""
    submitted, ended = (jobs[name].to_numpy(dtype=float) for name in ("submitted_ns", "ended_ns"))
    there = _mean_present(submitted, np.where(np.isnan(ended), float(duration_ns), ended), ended)
    crowd = np.maximum(1.0, there * jobs["share"].to_numpy(dtype=float))
    alone = jobs["alone_ns"].to_numpy(dtype=float)
    return np.asarray((ended - submitted) / (alone * crowd))


def _mean_present(submitted: Floats, left: Floats, ended: Floats) -> Floats:
    """How many jobs were there on average during the life of each."""
    times = np.concatenate([submitted, left])
    steps = np.concatenate([np.ones(len(submitted)), -np.ones(len(left))])
    order = np.argsort(times, kind="stable")
    times, present = times[order], np.cumsum(steps[order])
    total = np.concatenate([[0.0], np.cumsum(present[:-1] * np.diff(times))])
    life = ended - submitted
    during = np.interp(ended, times, total) - np.interp(submitted, times, total)
    return np.asarray(during / np.where(life > 0, life, np.nan))
