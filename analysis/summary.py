"""Every number of the report in one dictionary, and in summary.json for machines.

Times are nanoseconds and the key says so; shares and changes are fractions (0.1 is 10 %); what
could not be measured is null, never NaN and never left out.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis import (
    absent,
    backends,
    claims,
    cluster,
    compare,
    link_use,
    metrics,
    stragglers,
    tenants,
    window,
)
from analysis.answer import answer
from analysis.compare import Comparison, Pair
from analysis.folder import VERDICTS, Plan, Results, SealedRun
from analysis.metrics import (
    CLUSTER,
    FLOWS,
    HOSTS,
    JOBS,
    LINKS,
    MIXES,
    SHARING,
    SIZE_CLASSES,
    TIERS,
    TRAINING,
    Subject,
)
from analysis.stats import RESAMPLES, Change, Estimate
from analysis.stragglers import Waiting
from basics.record_version import SCHEMA_VERSION

Summary = dict[str, Any]
SUMMARY_VERSION = 2  # a sweep makes summaries of other versions again


def summarise(results: Results, resamples: int = RESAMPLES) -> Summary:
    """All metrics, intervals, changes, claims and the answer, ready to be written as JSON."""
    plan = results.plan
    pairs = _pairs(plan)
    flows = compare.pooled_flows(results)
    classes = {
        name: {label: window.of_class(table, name) for label, table in flows.items()}
        for name in SIZE_CLASSES
    }
    iterations = {job.name: compare.pooled_iterations(results, job) for job in plan.jobs}

    def compared(subject: Subject, tables: Mapping[str, pd.DataFrame]) -> Comparison:
        return compare.compared(subject, tables, plan.seeds, pairs, resamples)

    by_class = {name: compared(FLOWS, tables) for name, tables in classes.items()}
    by_job = {name: compared(TRAINING, tables) for name, tables in iterations.items()}
    by_family = tenants.measured_families(plan, iterations, by_job, pairs, resamples)
    without = absent.absent(results, flows)
    mixes = compare.pooled_mixes(results)
    of_mix = {
        mix.name: {label: table[table["mix"] == mix.name] for label, table in mixes.items()}
        for mix in plan.mixes
    }
    by_mix = {name: compared(MIXES, tables) for name, tables in of_mix.items()}
    waiting = stragglers.compared(results, pairs, resamples)
    parts = [(FLOWS, name, found) for name, found in by_class.items()]
    parts += [(MIXES, name, found) for name, found in by_mix.items()]
    parts += [(TRAINING, name, found) for name, found in by_job.items()]
    parts += [
        (subject, "", found) for subject, found in (waiting.measured if waiting else {}).items()
    ]
    crowd = cluster.compared(results, pairs, resamples)
    parts += [(CLUSTER, "", crowd.measured)] if crowd else []
    changes = {pair: _changes(pair, parts) for pair in pairs}
    policies: dict[str, Any] = {}
    for policy in plan.policies:
        label = policy.label
        ports = link_use.by_link(results.of(label), plan)
        links = link_use.rows(ports, plan)
        entry: dict[str, Any] = {
            "title": policy.title,
            "description": policy.description,
            "flows": {
                name: _entry(FLOWS, tables[label], by_class[name].intervals[label])
                for name, tables in classes.items()
            },
            "mixes": {
                name: _entry(MIXES, tables[label], by_mix[name].intervals[label])
                for name, tables in of_mix.items()
            },
            "sharing": _entry(SHARING, mixes[label]) if len(plan.mixes) > 1 else {},
            "training": {
                name: _entry(TRAINING, tables[label], by_job[name].intervals[label])
                for name, tables in iterations.items()
            },
            "jobs": _jobs(waiting, label, plan) if waiting else {},
            "cluster": _entry(CLUSTER, crowd.tables[label], crowd.measured.intervals[label])
            if crowd
            else {},
            "links": {**_entry(LINKS, links), "by_link": ports},
            "tiers": {tier: _entry(TIERS, found) for tier, found in link_use.tiers(links).items()},
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
        "summary_version": SUMMARY_VERSION,
        "name": plan.name,
        "question": plan.question,
        "engine": plan.engine,
        "digest": digest(results),
        "digests": {
            label: {str(run.seed): run.manifest.get("digest") for run in results.of(label)}
            for label in policies
        },
        "seeds": list(plan.seeds),
        "window_ns": list(plan.window_ns),
        "interval": {
            "level": 0.95,
            "resamples": resamples,
            "over": "seeds and flows" if len(plan.seeds) > 1 else "flows of one seed",
        },
        "metrics": metrics.described(),
        "tenants": tenants.tenants(plan, by_class, by_family, without),
        "absent": without,
        "policies": policies,
        "backends": backends.side_by_side(results),
    }
    summary["claims"] = [claims.check(claim, policies, changes) for claim in plan.claims]
    cleaned: Summary = _without_nan(summary)
    cleaned["answer"] = answer(cleaned)
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


def _entry(
    subject: Subject, table: pd.DataFrame, intervals: Mapping[str, Estimate] | None = None
) -> dict[str, Any]:
    """Every metric of a subject, by its key, and the intervals of those that have one."""
    found: dict[str, Any] = {one.key: one.how.value(table) for one in metrics.of(subject)}
    if intervals is not None:
        found["interval_95"] = {
            one.key: [intervals[one.name].low, intervals[one.name].high]
            for one in metrics.of(subject)
            if one.name in intervals
        }
    return found


def _jobs(waiting: Waiting, label: str, plan: Plan) -> dict[str, Any]:
    jobs, hosts = (
        _entry(subject, waiting.tables[subject][label], waiting.measured[subject].intervals[label])
        for subject in (JOBS, HOSTS)
    )
    own, first = (waiting.tables[JOBS][name] for name in (label, plan.first.label))
    return {**jobs, "hosts": hosts, "by_job": stragglers.by_job(own, first)}


def _changes(pair: Pair, parts: Iterable[tuple[Subject, str, Comparison]]) -> dict[str, Any]:
    return {
        subject.path(whose, name): _change(change)
        for subject, whose, measured in parts
        for name, change in measured.changes[pair].items()
    }


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


def _fidelity(runs: list[SealedRun]) -> dict[str, Any]:
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
