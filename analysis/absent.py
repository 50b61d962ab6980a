"""Who has nothing in the measured window, why, and what to change: no tenant ever disappears.

A tenant is a training job, a mix of flows, or a class of flows by size.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import window, words
from analysis.folder import Job, Plan, Results, SealedRun
from analysis.metrics import FLOWS, SIZES

JOB, MIX, SIZE = "job", "mix", "size class"
WHOLE_RUN = (0, 2**63 - 1)
LONGER = "a longer duration, or a shorter warmup and cooldown"
Why = tuple[str, str]  # why nothing was measured, what to change


def absent(results: Results, flows: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Every tenant that has nothing under a policy; `flows` are those of the window, by policy."""
    found: dict[tuple[str, str, Why], list[str]] = {}
    for policy in results.plan.policies:
        runs = results.of(policy.label)
        tenants = [*_jobs(runs, results.plan), *_flows(runs, results.plan, flows[policy.label])]
        for kind, who, why in tenants:
            found.setdefault((kind, who, why), []).append(policy.label)
    return [
        {"kind": kind, "who": who, "policies": labels, "why": why, "change": change}
        for (kind, who, (why, change)), labels in found.items()
    ]


def told(summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each of them; those with the same reason share one."""
    alike: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for entry in summary["absent"]:
        reason = (tuple(entry["policies"]), entry["why"], entry["change"])
        alike.setdefault(reason, []).append(entry)
    return [_told(entries, summary["policies"]) for entries in alike.values()]


def fits_answer(summary: Mapping[str, Any]) -> bool:
    """Whether there are so few that the answer says all of it."""
    return len(told(summary)) <= words.MANY_JOBS


def briefly(summary: Mapping[str, Any]) -> str:
    """The same for an answer: all of a few, the names of many."""
    if fits_answer(summary):
        return " ".join(told(summary))
    names = list(dict.fromkeys(_called(entry) for entry in summary["absent"]))
    more = [f"{len(names) - words.MANY_JOBS} more"] if len(names) > words.MANY_JOBS else []
    listed = words.and_list([*names[: words.MANY_JOBS], *more])
    return f"Nothing was measured of {listed}; the report says why."


def _told(entries: Sequence[Mapping[str, Any]], policies: Mapping[str, Any]) -> str:
    first = entries[0]
    who = words.and_list([_called(entry) for entry in entries])
    titles = [policies[label]["title"] for label in first["policies"]]
    under = "" if len(titles) == len(policies) else f" under {words.and_list(titles)}"
    return f"Nothing was measured of {who}{under}: {first['why']}; {first['change']}."


def _called(entry: Mapping[str, Any]) -> str:
    if entry["kind"] == SIZE:
        return FLOWS.called(entry["who"])
    return f"{entry['kind']} {entry['who']}"


def _jobs(runs: Sequence[SealedRun], plan: Plan) -> Iterator[tuple[str, str, Why]]:
    for job in plan.jobs:
        tables = [run.table("iterations") for run in runs]
        if all(window.iterations_in_window(t, job, plan.window_ns).empty for t in tables):
            yield JOB, job.name, _why_no_iteration(runs, job, plan)


def _why_no_iteration(runs: Sequence[SealedRun], job: Job, plan: Plan) -> Why:
    begin, end = plan.window_ns
    made = pd.concat([_of(run.table("iterations"), job) for run in runs])
    ends = pd.concat([_of(run.table("jobs"), job) for run in runs])
    broken = ends.loc[ends["status"] == "failed", "why"]
    if len(broken):
        return f"it broke ({broken.iloc[0]})", "the logs of the run say more"
    if job.start_ns >= end:
        return (
            f"it starts at {_s(job.start_ns)}, and the window ends at {_s(end)}",
            "let it start earlier, or take a longer duration",
        )
    if made.empty:
        return (
            f"not one iteration ended within {_s(plan.duration_ns)} "
            f"(compute alone takes {words.duration(job.compute_ns)} of each)",
            "take a longer duration, or a shorter iteration",
        )
    if (made["end_ns"] <= begin).all() and job.steps is not None:
        return (
            f"it had made its {job.steps} steps before the window began at {_s(begin)}",
            "take a shorter warmup, or more steps",
        )
    shortest = float((made["end_ns"] - made["start_ns"]).min())
    return (
        f"no whole iteration lies in the window of {_s(begin)} to {_s(end)} "
        f"(the shortest took {words.duration(shortest)})",
        f"take {LONGER}",
    )


def _of(table: pd.DataFrame, job: Job) -> pd.DataFrame:
    return table[table["job"] == job.name]


def _flows(
    runs: Sequence[SealedRun], plan: Plan, inside: pd.DataFrame
) -> Iterator[tuple[str, str, Why]]:
    every = pd.concat(
        window.flows_in_window(
            run.table("flows"), WHOLE_RUN, plan.mixes, plan.rates_bps, plan.delays_ns
        )
        for run in runs
    )
    gone = []
    for mix in plan.mixes:
        own, due = (table[table["mix"] == mix.name] for table in (inside, every))
        if own["fct_ns"].isna().all():
            gone.append(mix.name)
            yield MIX, mix.name, _why_no_flow(own, due, plan)
    rest, all_rest = (table[~table["mix"].isin(gone)] for table in (inside, every))
    for name in SIZES:
        own, due = (window.of_class(table, name) for table in (rest, all_rest))
        if len(due) and own["fct_ns"].isna().all():
            yield SIZE, name, _why_no_flow(own, due, plan)


def _why_no_flow(inside: pd.DataFrame, every: pd.DataFrame, plan: Plan) -> Why:
    begin, end = plan.window_ns
    if every.empty:
        return (
            f"no flow was due within {_s(plan.duration_ns)}",
            "take a longer duration, or more arrivals",
        )
    if inside.empty:
        return (
            f"none of its {len(every)} flows was due in the window of {_s(begin)} to {_s(end)}",
            f"take {LONGER}",
        )
    left_s = _s(plan.duration_ns - end)
    return (
        f"none of its {len(inside)} flows of the window finished, the last of which had "
        f"{left_s} of cooldown to do so",
        "take a longer duration and cooldown, or fewer arrivals",
    )


def _s(ns: int) -> str:
    return f"{ns / 1e9:g}{words.SPACE}s"
