"""Jobs that wait for each other: completion times, barrier waits, and what hosts do meanwhile.

A barrier is a step of a parameter-server job. A worker enters it when its gradient is at every
server, and leaves it when the servers have what they wait for: between lies its wait. Waits that
differ within a barrier are a straggler's doing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import compare
from analysis.compare import Comparison, Pair
from analysis.folder import Plan, Results, SealedRun
from analysis.metrics import HOSTS, JOBS, Floats, Subject, mean


def present(plan: Plan) -> bool:
    """Whether the experiment has jobs that this is about."""
    return any(job.servers or job.steps for job in plan.jobs)


# ---- barriers


def barriers(table: pd.DataFrame, window_ns: tuple[int, int]) -> pd.DataFrame:
    """One row a barrier that opened in the window: waits within it, and the last one's delay.

    `last_ns` is by how much the last worker came later than the median one, `spread_ns` than the
    first.
    """
    keys = ["job", "iteration", "worker"]
    passed = table.groupby(keys, sort=True)[["enter_ns", "leave_ns"]].max()
    waits = (passed["leave_ns"] - passed["enter_ns"]).astype(float)
    grouped = waits.groupby(level=["job", "iteration"], sort=True)
    enters = passed["enter_ns"].astype(float).groupby(level=["job", "iteration"], sort=True)
    found = pd.DataFrame(
        {
            "open_ns": passed["leave_ns"].groupby(level=["job", "iteration"], sort=True).max(),
            "mean_ns": grouped.mean(),
            "variance_ms2": grouped.var(ddof=0) / 1e12,
            "last_ns": enters.max() - enters.median(),
            "spread_ns": enters.max() - enters.min(),
        }
    ).reset_index()
    begin, end = window_ns
    return found[(found["open_ns"] >= begin) & (found["open_ns"] <= end)]


def job_values(run: SealedRun, plan: Plan) -> pd.DataFrame:
    """One row a job of a run: its completion time, what became of it, its barriers on average."""
    jobs = run.table("jobs").set_index("job")
    opened = barriers(run.table("barriers"), plan.window_ns)
    rows = []
    for job in plan.jobs:
        own = opened[opened["job"] == job.name]
        times = own["open_ns"].to_numpy(dtype=float)
        span = float(times[-1] - times[0]) if len(times) > 1 else float("nan")
        end_ns = float(jobs["end_ns"].get(job.name, np.nan))
        rows.append(
            {
                "job": job.name,
                "jct_ns": end_ns - job.start_ns,
                "wait_mean_ns": mean(own["mean_ns"].to_numpy(dtype=float)),
                "wait_variance_ms2": mean(own["variance_ms2"].to_numpy(dtype=float)),
                "straggler_share": float(own["last_ns"].iloc[1:].sum()) / span,
                "straggler_spread": float(own["spread_ns"].iloc[1:].sum()) / span,
                "barriers": len(own),
                "status": jobs["status"].get(job.name),
                "made": jobs["made"].get(job.name),
            }
        )
    return pd.DataFrame(rows)


# ---- hosts


def busy_span(run: SealedRun, plan: Plan) -> tuple[float, float]:
    """From the first job's start until the last is done, else until the window's end."""
    ends = run.table("jobs")["end_ns"].dropna()
    begin = min(job.start_ns for job in plan.jobs)
    unfinished = len(ends) < len(plan.jobs)
    return begin, plan.window_ns[1] if unfinished or not len(ends) else float(ends.max())


def host_values(run: SealedRun, plan: Plan) -> pd.DataFrame:
    """One row a host: shares of the time that jobs ran, over all of it."""
    edges = np.array(busy_span(run, plan))
    return pd.DataFrame(
        [
            {"host": host}
            | {name: float(values[0]) for name, values in use_of(run, plan, host, edges).items()}
            for host in hosts(plan)
        ]
    )


def hosts(plan: Plan) -> list[str]:
    """Every host that holds a task of a job."""
    return list(dict.fromkeys(name for job in plan.jobs for name in (*job.servers, *job.hosts)))


def use_of(run: SealedRun, plan: Plan, host: str, edges: Floats) -> dict[str, Floats]:
    """What a host does between each two edges.

    computing: the share of its workers' time that they computed (compute is played, so the
    machine's processors say nothing about it); sent and received: shares of its links' rates.
    """
    found = {"computing": _computing(run, plan, host, edges)}
    links = run.table("links")
    for name, mine in (("sent", f"{host}->"), ("received", f"->{host}")):
        ports = [
            link
            for link in plan.rates_bps
            if (link.startswith(mine) if name == "sent" else link.endswith(mine))
        ]
        rate = sum(plan.rates_bps[link] for link in ports)
        total = np.zeros(len(edges) - 1)
        for _, counted in links[links["link"].isin(ports)].groupby(["link", "class"]):
            ordered = counted.sort_values("time_ns")
            times = ordered["time_ns"].to_numpy(dtype=float)
            total += np.diff(np.interp(edges, times, ordered["bytes"].to_numpy(dtype=float)))
        found[name] = total * 8e9 / (np.diff(edges) * rate) if rate else total * np.nan
    return found


def _computing(run: SealedRun, plan: Plan, host: str, edges: Floats) -> Floats:
    mine = [
        (job.name, rank) for job in plan.jobs for rank, on in enumerate(job.hosts) if on == host
    ]
    if not mine:
        return np.full(len(edges) - 1, np.nan)
    table = run.table("computes")
    index = pd.MultiIndex.from_frame(table[["job", "worker"]])
    own = table[index.isin(mine)]
    begins, ends = (own[key].to_numpy(dtype=float) for key in ("start_ns", "end_ns"))
    # Compute done by an instant: of each piece, what lies before it.
    done = np.array([np.clip(edge - begins, 0, ends - begins).sum() for edge in edges])
    return np.asarray(np.diff(done) / (np.diff(edges) * len(mine)))


# ---- all of it, compared


@dataclass(frozen=True)
class Waiting:
    """Such jobs and their hosts: the rows of each policy, all seeds in one table, and compared."""

    tables: Mapping[Subject, Mapping[str, pd.DataFrame]]
    measured: Mapping[Subject, Comparison]


def compared(results: Results, pairs: Iterable[Pair], resamples: int) -> Waiting | None:
    """None where there are no such jobs."""
    plan, pairs = results.plan, list(pairs)
    if not present(plan):
        return None
    tables = {JOBS: _pooled(results, job_values), HOSTS: _pooled(results, host_values)}
    measured = {
        subject: compare.compared(subject, found, plan.seeds, pairs, resamples)
        for subject, found in tables.items()
    }
    return Waiting(tables, measured)


def _pooled(
    results: Results, values: Callable[[SealedRun, Plan], pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """The values of every run, by policy."""
    return {
        policy.label: pd.concat(
            [values(run, results.plan).assign(seed=run.seed) for run in results.of(policy.label)],
            ignore_index=True,
        )
        for policy in results.plan.policies
    }


def by_job(own: pd.DataFrame, first: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The mean over seeds of each job, and its completion time over that under the first policy."""
    own, first = (
        table.set_index(["seed", "job"]).drop(columns=["status", "made"]) for table in (own, first)
    )
    normalised = (own["jct_ns"] / first["jct_ns"]).rename("jct_normalised")
    means = own.join(normalised).groupby(level="job", sort=False).mean()
    return {
        str(job): {str(key): float(value) for key, value in row.items()}
        for job, row in means.iterrows()
    }
