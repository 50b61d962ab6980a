"""The answer to an experiment's question: who gains, who pays, how much, how sure that is."""

from collections.abc import Sequence
from typing import Any

from analysis import absent, metrics
from analysis.metrics import ALL, CLUSTER, FLOWS, JOBS, MIXES, TRAINING
from analysis.words import (
    MANY_JOBS,
    SPACE,
    and_list,
    duration,
    duration_interval,
    finite,
    percent,
    percent_interval,
    verdict,
)

# What its sentences are made for: times, of which the shorter is the better.
FCT, ITERATION, JCT, COMPLETION = (
    metrics.headline(subject) for subject in (FLOWS, TRAINING, JOBS, CLUSTER)
)
GOODPUT = metrics.headline(MIXES)


def answer(summary: dict[str, Any]) -> str:
    """Who gains how much, who pays how much, how sure that is; and who has nothing, and why."""
    return f"{_compared(summary)} {absent.briefly(summary)}".rstrip()


def _compared(summary: dict[str, Any]) -> str:
    policies = summary["policies"]
    labels = list(policies)
    caution = _caution(policies)
    if len(labels) == 1 and summary["backends"]:
        return _sentence(caution + _training_stacks(summary["backends"]))
    if len(labels) == 1:
        return _sentence(caution + _only_policy(policies[labels[0]]))
    first, others = policies[labels[0]], [policies[label] for label in labels[1:]]
    size = _size(others)
    best_by = _judged_by(size, others)
    better = [e for e in others if best_by and verdict(e["change"][best_by]) == "better"]
    chosen = min(better or others, key=lambda entry: _point(entry, best_by) if best_by else 0.0)
    several = len(others) > 1 and best_by is not None
    label = next(label for label in labels if policies[label] is chosen)
    trainers = _trainers(summary["tenants"], label)
    findings = _findings(chosen, trainers, size, "they" if several else None)
    if not findings:
        findings = _goodputs(chosen)
    if not findings:
        return _sentence(caution + "nothing in the measured window can be compared.")
    if several and best_by:
        whose = _whose(size) if size else "jobs"
        compared = f"of {len(others)} policies compared with {first['title']}, "
        opening = (
            f"{compared}{chosen['title']} is best for {whose}: "
            if better
            else f"{compared}none is clearly better for {whose}; under {chosen['title']}, "
        )
    else:
        opening = f"under {chosen['title']} instead of {first['title']}, "
    return _sentence(f"{caution}{opening}{'; '.join(findings)}.")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _caution(policies: dict[str, Any]) -> str:
    for kind, advice in (("broken", "Not to be relied on"), ("doubtful", "With care")):
        titles = [
            entry["title"] for entry in policies.values() if entry["fidelity"]["verdict"] == kind
        ]
        if titles:
            return f"{advice} ({kind} run under {and_list(titles)}): "
    if any(entry["fidelity"]["verdict"] == "simulated" for entry in policies.values()):
        return "In simulation, "
    return ""


def _training_stacks(rows: Sequence[dict[str, Any]]) -> str:
    """The same job on several stacks, under one policy."""
    first, *others = rows
    apart = [
        f"{duration(row[ITERATION.key])} on {row['backend']} "
        f"({percent(row[f'{ITERATION.key}_change'])})"
        for row in others
    ]
    on_first = f"{duration(first[ITERATION.key])} on {first['backend']}"
    return f"an iteration takes {and_list([on_first, *apart])}."


def _only_policy(entry: dict[str, Any]) -> str:
    parts = [
        f"{FLOWS.called(name)} take {duration(flows[FCT.key])} on average"
        for name, flows in entry["flows"].items()
        if name in ("small", "large") and finite(flows[FCT.key])
    ]
    iterations = {
        job: training[ITERATION.key]
        for job, training in entry["training"].items()
        if finite(training[ITERATION.key])
    }
    if len(iterations) > MANY_JOBS:
        ends = duration_interval([min(iterations.values()), max(iterations.values())])
        parts.append(f"an iteration of each of {len(iterations)} jobs takes {ends}")
    else:
        parts += [f"an iteration of {job} takes {duration(ns)}" for job, ns in iterations.items()]
    for section, metric in (("jobs", JCT), ("cluster", COMPLETION)):
        if finite(entry[section].get(metric.key)):
            parts.append(f"a job is done after {duration(entry[section][metric.key])} on average")
    opening = f"only {entry['title']} was run, so there is nothing to compare"
    return f"{opening}: {and_list(parts)}." if parts else f"{opening}."


def _size(others: Sequence[dict[str, Any]]) -> str | None:
    """The class of flows that the answer speaks about: the small ones, if there are any."""
    for name in ("small", ALL):
        if any(finite(entry["change"][FCT.path(name)]["change"]) for entry in others):
            return name
    return None


def _judged_by(size: str | None, others: Sequence[dict[str, Any]]) -> str | None:
    """The metric by which the best of several policies is chosen."""
    if size:
        return FCT.path(size)
    return next((path for entry in others if (path := _timed(entry))), None)


def _point(entry: dict[str, Any], metric: str) -> float:
    value = entry["change"][metric]["change"]
    return float(value) if finite(value) else float("inf")


def _trainers(tenants: Sequence[dict[str, Any]], label: str) -> dict[str, dict[str, Any]]:
    """How iterations changed under a policy: by family of jobs, where there is one with several."""
    return {
        tenant["title"]: tenant["policies"][label]
        for tenant in tenants
        if tenant["jobs"] and finite(tenant["policies"][label]["change"])
    }


def _findings(
    entry: dict[str, Any],
    trainers: dict[str, dict[str, Any]],
    size: str | None,
    whom: str | None,
) -> list[str]:
    change = entry["change"]
    flows = change[FCT.path(size)] if size else None
    findings = []
    if size and flows and finite(flows["change"]):
        findings.append(_finding(whom or _whose(size), "finish", flows))
    timed = _timed(entry)
    if timed:
        jobs_are = "jobs" if size or not whom else whom
        findings.append(_finding(jobs_are, "are done", change[timed]))
    jobs = len(entry["training"])
    gained = verdict(flows) == "better"
    if not (timed and jobs > MANY_JOBS):
        findings += _paid(trainers, gained=gained)
    large = change[FCT.path("large")]
    if size and not trainers and finite(large["change"]):
        findings.append(_finding("large flows", "finish", large))
    return findings


def _goodputs(entry: dict[str, Any]) -> list[str]:
    """Where no flow ends and nothing trains, what each mix gets is all that there is to say."""
    found = []
    for name, mix in entry["mixes"].items():
        changed = entry["change"][GOODPUT.path(name)]["change"]
        if finite(changed):
            rate = GOODPUT.unit.shown(mix[GOODPUT.key])
            found.append(f"{MIXES.called(name)} get {rate} ({percent(changed)})")
    return found


def _paid(trainers: dict[str, dict[str, Any]], *, gained: bool) -> list[str]:
    """What training pays: each of a few, or of many the one that pays most."""
    found: list[str] = []
    most = sorted(trainers, key=lambda title: -float(trainers[title]["change"]))
    for title in most if len(most) < MANY_JOBS else most[:1]:
        whose = f"iterations of {title}"
        if len(most) >= MANY_JOBS:
            whose += f" (of {len(most)} the one that pays most)"
        if gained and not found and verdict(trainers[title]) == "worse":
            whose = f"in return, {whose}"
        found.append(_finding(whose, "end", trainers[title]))
    return found


def _timed(entry: dict[str, Any]) -> str | None:
    """The metric by which completion times of its jobs can be compared, if they can be."""
    for path in (JCT.path(), COMPLETION.path()):
        change = entry["change"].get(path)
        if change is not None and finite(change["change"]):
            return path
    return None


def _finding(whose: str, verb: str, entry: dict[str, Any]) -> str:
    interval = entry["interval_95"]
    size = percent(abs(entry["change"]), signed=False)
    kind = verdict(entry)
    if kind == "better":
        ends = percent_interval([-interval[1], -interval[0]], signed=False)
        return f"{whose} {verb} {size} sooner on average (95{SPACE}% interval {ends})"
    if kind == "worse":
        ends = percent_interval(interval, signed=False)
        return f"{whose} take {size} longer on average (95{SPACE}% interval {ends})"
    if kind == "few":
        return f"{whose} changed by {percent(entry['change'])}, but are too few to tell"
    ends = percent_interval(interval)
    return f"{whose} show no clear change ({percent(entry['change'])}, 95{SPACE}% interval {ends})"


def _whose(size: str) -> str:
    return "flows" if size == ALL else FLOWS.called(size)
