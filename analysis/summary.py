"""Every number of the report in one dictionary, and in summary.json for machines.

Times are nanoseconds and the key says so; shares and changes are fractions (0.1 is 10 %); what
could not be measured is null, never NaN and never left out.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import backends, claims, compare, metrics, stragglers, tenants, words
from analysis.compare import Measured, Pair
from analysis.folder import VERDICTS, Plan, Results, Run
from analysis.stats import RESAMPLES, Change, Estimate
from testbed.records import SCHEMA_VERSION

Summary = dict[str, Any]


def summarise(results: Results, resamples: int = RESAMPLES) -> Summary:
    """All metrics, intervals, changes, claims and the answer, ready to be written as JSON."""
    plan = results.plan
    pairs = _pairs(plan)
    flows = compare.pooled_flows(results)
    iterations = {job.name: compare.pooled_iterations(results, job) for job in plan.jobs}
    by_class = {
        name: compare.compare_flows(flows, name, plan.seeds, pairs, resamples)
        for name in metrics.CLASSES
    }
    by_job = {
        job.name: compare.compare_iterations(iterations[job.name], plan.seeds, pairs, resamples)
        for job in plan.jobs
    }
    by_family = tenants.measured_families(plan, iterations, by_job, pairs, resamples)
    changes = {pair: _changes(pair, by_class, by_job) for pair in pairs}
    jobs, job_changes = stragglers.summarise(results, pairs, resamples)
    for pair, found in job_changes.items():
        changes[pair] |= {metric: _change(change) for metric, change in found.items()}
    policies: dict[str, Any] = {}
    for policy in plan.policies:
        label = policy.label
        links = _links(results.of(label), plan)
        entry: dict[str, Any] = {
            "title": policy.title,
            "description": policy.description,
            "flows": {
                name: {
                    **metrics.flow_statistics(metrics.of_class(flows[label], name)),
                    "interval_95": _intervals(by_class[name].intervals[label]),
                }
                for name in metrics.CLASSES
            },
            "training": {
                job.name: {
                    **metrics.training_statistics(iterations[job.name][label], job.compute_ns),
                    "iterations": _distinct(iterations[job.name][label]),
                    "interval_95": _intervals(by_job[job.name].intervals[label]),
                }
                for job in plan.jobs
            },
            "jobs": jobs[label],
            "links": links,
            "tiers": _tiers(links["by_link"]),
            "fidelity": _fidelity(results.of(label)),
        }
        if policy is not plan.first:
            entry["change"] = {
                "against": plan.first.label,
                **changes[label, plan.first.label],
            }
        policies[label] = entry
    summary: Summary = {
        "schema_version": SCHEMA_VERSION,
        "name": plan.name,
        "question": plan.question,
        "engine": plan.engine,
        "digest": digest(results),
        "seeds": list(plan.seeds),
        "window_ns": list(plan.window_ns),
        "interval": {
            "level": 0.95,
            "resamples": resamples,
            "over": "seeds and flows" if len(plan.seeds) > 1 else "flows of one seed",
        },
        "tenants": tenants.tenants(plan, by_class, by_family),
        "policies": policies,
        "backends": backends.side_by_side(results),
    }
    summary["claims"] = [claims.check(claim, policies, changes) for claim in plan.claims]
    cleaned: Summary = _without_nan(summary)
    cleaned["answer"] = words.answer(cleaned)
    return cleaned


def digest(results: Results) -> str:
    """One digest for the records of all runs; equal only if every run's are equal."""
    lines = [
        f"{label} {seed} {run.manifest.get('digest')}"
        for (label, seed), run in sorted(results.runs.items())
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def claims_hold(summary: Summary) -> bool:
    return all(claim["holds"] for claim in summary["claims"])


def _pairs(plan: Plan) -> list[Pair]:
    """Every policy against the first, and whatever else a claim asks for."""
    labels = {policy.label for policy in plan.policies}
    wanted = [(policy.label, plan.first.label) for policy in plan.others]
    wanted += [
        (claim.of, claim.against)
        for claim in plan.claims
        if claim.against is not None and {claim.of, claim.against} <= labels
    ]
    return list(dict.fromkeys(wanted))


def _changes(
    pair: Pair, by_class: Mapping[str, Measured], by_job: Mapping[str, Measured]
) -> dict[str, Any]:
    found = {
        f"flows.{name}.{metric}": _change(change)
        for name, measured in by_class.items()
        for metric, change in measured.changes[pair].items()
    }
    found |= {
        f"training.{job}.{metric}": _change(change)
        for job, measured in by_job.items()
        for metric, change in measured.changes[pair].items()
    }
    return found


def _change(change: Change) -> dict[str, Any]:
    return {
        "change": change.change.point,
        "interval_95": [change.change.low, change.change.high],
        "reduction_thesis": change.reduction_thesis.point,
        "reduction_thesis_interval_95": [
            change.reduction_thesis.low,
            change.reduction_thesis.high,
        ],
        "pairs": change.pairs,
    }


def _intervals(estimates: Mapping[str, Estimate]) -> dict[str, list[float]]:
    return {f"{name}_ns": [found.low, found.high] for name, found in estimates.items()}


def _distinct(iterations: pd.DataFrame) -> int:
    return len(iterations[["seed", "iteration"]].drop_duplicates())


def _links(runs: list[Run], plan: Plan) -> dict[str, Any]:
    """Utilisation over the window, the mean over seeds; drops are summed."""
    uses = [metrics.link_use(run.table("links"), plan.window_ns, plan.rates_bps) for run in runs]
    by_link: dict[str, Any] = {}
    for link in plan.rates_bps:
        found = [use[link] for use in uses if link in use]
        if not found:
            continue
        names = sorted({name for use in found for name in use.by_class})
        by_link[link] = {
            "utilisation": _mean([use.total for use in found]),
            "by_class": {
                name: _mean([use.by_class.get(name, 0.0) for use in found]) for name in names
            },
            "drops": sum(use.drops for use in found),
        }
    return {
        "utilisation_mean": _mean([entry["utilisation"] for entry in by_link.values()]),
        "utilisation_max": max(
            (entry["utilisation"] for entry in by_link.values()), default=float("nan")
        ),
        "drops": sum(entry["drops"] for entry in by_link.values()),
        "by_link": by_link,
    }


def _tiers(by_link: Mapping[str, Any]) -> dict[str, Any]:
    """Utilisation of the links between the same two kinds of node, where there are several."""
    found: dict[str, list[float]] = {}
    for link, entry in by_link.items():
        found.setdefault(metrics.tier_of(link), []).append(entry["utilisation"])
    if len(found) <= 2:  # there and back: one rack
        return {}
    return {
        tier: {"utilisation_mean": _mean(values), "utilisation_max": max(values)}
        for tier, values in found.items()
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _fidelity(runs: list[Run]) -> dict[str, Any]:
    worst = max((run.fidelity["verdict"] for run in runs), key=VERDICTS.index)
    return {
        "verdict": worst,
        "reasons": [
            f"seed {run.seed}: {reason}"
            for run in runs
            for reason in run.fidelity.get("reasons") or []
        ],
        "by_seed": {str(run.seed): run.fidelity["verdict"] for run in runs},
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return value
