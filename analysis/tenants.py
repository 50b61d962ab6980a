"""Who gains, who pays: every policy against the first, one number for each tenant of the network.

A tenant is a class of flows by size, or a family of jobs: those that came from one entry of the
experiment file. With many policies and jobs this is the table that a person can still read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import compare, metrics, stats, words
from analysis.absent import SIZE
from analysis.compare import Comparison, Pair
from analysis.folder import Plan
from analysis.metrics import FLOWS, SIZES, TRAINING, Metric
from analysis.stats import Change

MANY = words.MANY_JOBS  # more policies or jobs than this, and the long table is beyond reading


def families(plan: Plan) -> dict[str, list[str]]:
    """The names of the jobs of each family, in the order of the file."""
    found: dict[str, list[str]] = {}
    for job in plan.jobs:
        found.setdefault(job.family or job.name, []).append(job.name)
    return found


def measured_families(
    plan: Plan,
    iterations: Mapping[str, Mapping[str, pd.DataFrame]],
    by_job: Mapping[str, Comparison],
    pairs: Iterable[Pair],
    resamples: int = stats.RESAMPLES,
) -> dict[str, Comparison]:
    """Iteration time of each family, all iterations of all its jobs in one sample."""
    found = {}
    for family, jobs in families(plan).items():
        if len(jobs) == 1:
            found[family] = by_job[jobs[0]]
            continue
        together = {
            policy.label: pd.concat(
                [iterations[job][policy.label] for job in jobs], ignore_index=True
            )
            for policy in plan.policies
        }
        found[family] = compare.compared(TRAINING, together, plan.seeds, pairs, resamples)
    return found


def tenants(
    plan: Plan,
    by_class: Mapping[str, Comparison],
    by_family: Mapping[str, Comparison],
    without: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """One entry a tenant: its mean under each policy, and the changes.

    `without` are those that have nothing in the window; they keep their place all the same.
    """
    jobs = families(plan)
    of_flows, of_jobs = metrics.headline(FLOWS), metrics.headline(TRAINING)
    classes = [
        {
            "name": name,
            "title": FLOWS.called(name).capitalize(),
            "metric": of_flows.name,
            "jobs": [],
            "policies": _under_each(plan, by_class[name], of_flows),
        }
        for name in SIZES
    ]
    trained = [
        {
            "name": name,
            "title": name
            if len(jobs[name]) == 1
            else f"{name} ({len(jobs[name])}{words.SPACE}jobs)",
            "metric": of_jobs.name,
            "jobs": jobs[name],
            "policies": _under_each(plan, measured, of_jobs),
        }
        for name, measured in by_family.items()
    ]
    kept = {entry["who"] for entry in without if entry["kind"] == SIZE}
    there = [found for found in classes if _was_measured(found) or found["name"] in kept]
    return there + trained


def measured(summary: Mapping[str, Any]) -> bool:
    """Whether any tenant has a number."""
    means = [entry["mean_ns"] for t in summary["tenants"] for entry in t["policies"].values()]
    return any(mean is not None for mean in means)


def many(summary: Mapping[str, Any]) -> bool:
    """Whether the table of tenants is shown first: there is too much for the long one."""
    policies = summary["policies"]
    jobs = next(iter(policies.values()))["training"]
    enough = len(policies) > 1 and measured(summary)
    return enough and (len(policies) > MANY or len(jobs) > MANY)


def _under_each(plan: Plan, measured: Comparison, metric: Metric) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for policy in plan.policies:
        own = measured.intervals[policy.label][metric.name]
        found[policy.label] = {"mean_ns": own.point, "interval_95_ns": [own.low, own.high]}
        if policy is not plan.first:
            change = measured.changes[policy.label, plan.first.label][metric.name]
            found[policy.label] |= _change(change)
    return found


def _change(found: Change) -> dict[str, Any]:
    return {
        "change": found.change.point,
        "interval_95": [found.change.low, found.change.high],
        "pairs": found.pairs,
    }


def _was_measured(tenant: Mapping[str, Any]) -> bool:
    return any(entry["mean_ns"] == entry["mean_ns"] for entry in tenant["policies"].values())
