"""The same training on several stacks, side by side: how far apart in time and in traffic.

For experiments whose jobs differ in their backend. Traffic is what a job's hosts sent, headers
included, so it says something about a job only where nothing else is sent from its hosts.
"""

from typing import Any

from analysis import metrics, words
from analysis.compare import pooled_iterations
from analysis.folder import Job, Results, SealedRun
from analysis.link_use import link_use
from analysis.metrics import TRAINING
from analysis.window import iterations_in_window

ITERATION = metrics.headline(TRAINING)
SENT = "sent_byte_per_iteration"


def side_by_side(results: Results) -> list[dict[str, Any]]:
    """A row for each policy and job, with its distance from the first job of that policy."""
    plan = results.plan
    if len({job.backend for job in plan.jobs}) < 2:
        return []
    pooled = {job.name: pooled_iterations(results, job) for job in plan.jobs}
    rows = []
    for policy in plan.policies:
        first: dict[str, Any] | None = None
        for job in plan.jobs:
            row: dict[str, Any] = {
                "policy": policy.label,
                "job": job.name,
                "backend": job.backend,
                ITERATION.key: ITERATION.how.value(pooled[job.name][policy.label]),
                SENT: _sent_byte(results.of(policy.label), results, job),
            }
            first = first or row
            for metric in (ITERATION.key, SENT):
                row[f"{metric}_change"] = (
                    row[metric] / first[metric] - 1 if first[metric] else float("nan")
                )
            rows.append(row)
    return rows


def _sent_byte(runs: list[SealedRun], results: Results, job: Job) -> float:
    """What a host of the job sends in one iteration, the mean over hosts and seeds.

    Over whole iterations only: training sends in bursts, and half an iteration is not half of them.
    """
    rates = results.plan.rates_bps
    found = []
    for run in runs:
        whole = iterations_in_window(run.table("iterations"), job, results.plan.window_ns)
        if whole.empty:
            continue
        span_ns = (int(whole["start_ns"].min()), int(whole["end_ns"].max()))
        iteration_s = (span_ns[1] - span_ns[0]) / 1e9 / whole["iteration"].nunique()
        found += [
            use.total * rates[link] / 8 * iteration_s
            for link, use in link_use(run.table("links"), span_ns, rates).items()
            if link.partition("->")[0] in job.hosts
        ]
    return sum(found) / len(found) if found else float("nan")


def sentences(rows: list[dict[str, Any]], titles: dict[str, str], flows: bool) -> list[str]:
    """The rows in words, one sentence for each job but the first of a policy."""
    said = []
    first: dict[str, Any] = {}
    for row in rows:
        if row["policy"] != first.get("policy"):
            first = row
            continue
        said.append(
            f"{titles[row['policy']]}: an iteration on {row['backend']} takes "
            f"{words.duration(row[ITERATION.key])}, "
            f"{words.percent(row[f'{ITERATION.key}_change'])} against {first['backend']}; "
            f"a host sends {_megabytes(row[SENT])} in it"
            f"{' (other flows included)' if flows else ''}, "
            f"{words.percent(row[f'{SENT}_change'])}."
        )
    return said


def _megabytes(size_byte: float | None) -> str:
    return words.NONE if size_byte is None else f"{size_byte / 1e6:.2f}{words.SPACE}MB"
