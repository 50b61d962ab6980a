"""Who gains, who pays: every policy against the first, one number for each tenant of the network.

A tenant is a class of flows by size, or a family of jobs: those that came from one entry of the
experiment file. With many policies and jobs this is the table that a person can still read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis import compare, stats, words
from analysis.compare import Measured, Pair
from analysis.folder import Plan
from analysis.stats import Change

MANY = words.MANY_JOBS  # more policies or jobs than this, and the long table is beyond reading
FLOW_CLASSES = ("small", "medium", "large")
FLOW_METRIC, JOB_METRIC = "fct_mean", "iteration_mean"


def families(plan: Plan) -> dict[str, list[str]]:
    """The names of the jobs of each family, in the order of the file."""
    found: dict[str, list[str]] = {}
    for job in plan.jobs:
        found.setdefault(job.family or job.name, []).append(job.name)
    return found


def measured_families(
    plan: Plan,
    iterations: Mapping[str, Mapping[str, pd.DataFrame]],
    by_job: Mapping[str, Measured],
    pairs: Iterable[Pair],
    resamples: int = stats.RESAMPLES,
) -> dict[str, Measured]:
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
        found[family] = compare.compare_iterations(together, plan.seeds, pairs, resamples)
    return found


def tenants(
    plan: Plan, by_class: Mapping[str, Measured], by_family: Mapping[str, Measured]
) -> list[dict[str, Any]]:
    """One entry a tenant that was measured: its mean under each policy, and the changes."""
    jobs = families(plan)
    classes = [
        {
            "name": name,
            "title": words.CLASS_WORDS[name].capitalize(),
            "metric": FLOW_METRIC,
            "jobs": [],
            "policies": _under_each(plan, by_class[name], FLOW_METRIC),
        }
        for name in FLOW_CLASSES
    ]
    trained = [
        {
            "name": name,
            "title": name
            if len(jobs[name]) == 1
            else f"{name} ({len(jobs[name])}{words.SPACE}jobs)",
            "metric": JOB_METRIC,
            "jobs": jobs[name],
            "policies": _under_each(plan, measured, JOB_METRIC),
        }
        for name, measured in by_family.items()
    ]
    return [found for found in classes + trained if _was_measured(found)]


def many(summary: Mapping[str, Any]) -> bool:
    """Whether the table of tenants is shown first: there is too much for the long one."""
    policies = summary["policies"]
    jobs = next(iter(policies.values()))["training"]
    enough = len(policies) > 1 and len(summary["tenants"]) > 0
    return enough and (len(policies) > MANY or len(jobs) > MANY)


def _under_each(plan: Plan, measured: Measured, metric: str) -> dict[str, Any]:
    first = plan.first.label
    return {
        policy.label: {
            "mean_ns": measured.intervals[policy.label][metric].point,
            "interval_95_ns": [
                measured.intervals[policy.label][metric].low,
                measured.intervals[policy.label][metric].high,
            ],
            **(
                {}
                if policy.label == first
                else _change(measured.changes[policy.label, first][metric])
            ),
        }
        for policy in plan.policies
    }


def _change(found: Change) -> dict[str, Any]:
    return {
        "change": found.change.point,
        "interval_95": [found.change.low, found.change.high],
        "pairs": found.pairs,
    }


def _was_measured(tenant: Mapping[str, Any]) -> bool:
    return any(entry["mean_ns"] == entry["mean_ns"] for entry in tenant["policies"].values())
