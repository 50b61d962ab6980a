"""Numbers and findings in words, the same in the terminal, the report and the answer."""

import math
from collections.abc import Sequence
from typing import Any

MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"
NONE = "\N{EN DASH}"
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))

Interval = Sequence[float | None] | None
MANY_JOBS = 4  # more are not listed one by one
JCT = "jobs.jct_mean"
CLASS_WORDS = {"small": "small flows", "medium": "medium flows", "large": "large flows"}


def time_unit(largest_ns: float) -> tuple[float, str]:
    """The unit in which a time of this size reads best: (its length in ns, its name)."""
    for length, name in UNITS:
        if abs(largest_ns) >= length:
            return length, name
    return UNITS[-1]


def duration(ns: float | None) -> str:
    """1234567 -> 1.23 ms."""
    if ns is None or not math.isfinite(ns):
        return NONE
    length, name = time_unit(float(f"{ns:.3g}"))
    return f"{_three_digits(ns / length)}{SPACE}{name}"


def duration_interval(interval: Interval) -> str:
    ends = known(interval)
    if ends is None:
        return ""
    low, high = ends
    length, name = time_unit(float(f"{high:.3g}"))
    return f"{_three_digits(low / length)} to {_three_digits(high / length)}{SPACE}{name}"


def percent(share: float | None, *, signed: bool = True) -> str:
    """-0.312 -> −31 %; small shares keep a decimal."""
    if share is None or not math.isfinite(share):
        return NONE
    return f"{_percent_number(share, signed=signed, decimals=_decimals(share))}{SPACE}%"


def percent_interval(interval: Interval, *, signed: bool = True) -> str:
    ends = known(interval)
    if ends is None:
        return ""
    decimals = max(_decimals(end) for end in ends)
    if ends[0] < ends[1] and round(100 * ends[0], decimals) == round(100 * ends[1], decimals):
        decimals += 1
    low, high = (_percent_number(end, signed=signed, decimals=decimals) for end in ends)
    return f"{low} to {high}{SPACE}%"


def short_interval(interval: Interval) -> str:
    """An interval of shares for narrow places, in per cent: −74 to −60.

    One large end takes the decimals from both, if they stay apart from each other and from 0.
    """
    ends = known(interval)
    if ends is None:
        return ""
    whole = {round(100 * end) for end in ends}
    if any(_decimals(end) == 0 for end in ends) and len(whole | {0}) == 3:
        low, high = (_percent_number(end, signed=True, decimals=0) for end in ends)
        return f"{low} to {high}"
    return percent_interval(ends).removesuffix(f"{SPACE}%")


def verdict(entry: dict[str, Any] | None) -> str:
    """better, worse or unclear: does the interval of this change leave 0 out?

    few: something was measured, but too little for an interval.
    """
    if entry is None or entry["change"] is None:
        return ""
    ends = known(entry["interval_95"])
    if ends is None:
        return "few"
    low, high = ends
    if high < 0:
        return "better"
    return "worse" if low > 0 else "unclear"


def known(interval: Interval) -> tuple[float, float] | None:
    """The two ends of an interval, if both are real numbers."""
    ends = [float(end) for end in interval or () if end is not None and math.isfinite(end)]
    return (ends[0], ends[1]) if len(ends) == 2 else None


def two_lines(title: str) -> str:
    """A heading of a narrow column, cut at its first blank: Small / flows, ring / (4 jobs)."""
    return title.replace(" ", "\n", 1)


def and_list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def answer(summary: dict[str, Any]) -> str:
    """One sentence: who gains how much, who pays how much, and how sure that is."""
    policies = summary["policies"]
    labels = list(policies)
    caution = _caution(policies)
    if len(labels) == 1 and summary["backends"]:
        return _sentence(caution + _training_stacks(summary["backends"]))
    if len(labels) == 1:
        return _sentence(caution + _only_policy(policies[labels[0]]))
    first, others = policies[labels[0]], [policies[label] for label in labels[1:]]
    metric = _flow_metric(others)
    best_by = metric or (JCT if any(_timed(entry) for entry in others) else None)
    chosen = min(others, key=lambda entry: _point(entry, best_by) if best_by else 0.0)
    several = len(others) > 1 and best_by is not None
    label = next(label for label in labels if policies[label] is chosen)
    trainers = _trainers(summary["tenants"], label)
    findings = _findings(chosen, trainers, metric, "they" if several else None)
    if not findings:
        return _sentence(caution + "nothing in the measured window can be compared.")
    if several and best_by:
        whose = _whose(metric) if metric else "jobs"
        opening = (
            f"of {len(others)} policies compared with {first['title']}, "
            f"{chosen['title']} is best for {whose}: "
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
        f"{duration(row['iteration_mean_ns'])} on {row['backend']} "
        f"({percent(row['iteration_mean_ns_change'])})"
        for row in others
    ]
    on_first = f"{duration(first['iteration_mean_ns'])} on {first['backend']}"
    return f"an iteration takes {and_list([on_first, *apart])}."


def _only_policy(entry: dict[str, Any]) -> str:
    parts = [
        f"{CLASS_WORDS[name]} take {duration(flows['fct_mean_ns'])} on average"
        for name, flows in entry["flows"].items()
        if name in ("small", "large") and _finite(flows["fct_mean_ns"])
    ]
    iterations = {
        job: training["iteration_mean_ns"]
        for job, training in entry["training"].items()
        if _finite(training["iteration_mean_ns"])
    }
    if len(iterations) > MANY_JOBS:
        ends = duration_interval([min(iterations.values()), max(iterations.values())])
        parts.append(f"an iteration of each of {len(iterations)} jobs takes {ends}")
    else:
        parts += [f"an iteration of {job} takes {duration(ns)}" for job, ns in iterations.items()]
    if _finite(entry["jobs"].get("jct_mean_ns")):
        parts.append(f"a job is done after {duration(entry['jobs']['jct_mean_ns'])} on average")
    opening = f"only {entry['title']} was run, so there is nothing to compare"
    return f"{opening}: {and_list(parts)}." if parts else f"{opening}."


def _flow_metric(others: Sequence[dict[str, Any]]) -> str | None:
    """The flows that the answer speaks about: the small ones, if there are any."""
    for name in ("small", "all"):
        metric = f"flows.{name}.fct_mean"
        if any(_finite(entry["change"][metric]["change"]) for entry in others):
            return metric
    return None


def _point(entry: dict[str, Any], metric: str) -> float:
    value = entry["change"][metric]["change"]
    return float(value) if _finite(value) else float("inf")


def _trainers(tenants: Sequence[dict[str, Any]], label: str) -> dict[str, dict[str, Any]]:
    """How iterations changed under a policy: by family of jobs, where there is one with several."""
    return {
        tenant["title"]: tenant["policies"][label]
        for tenant in tenants
        if tenant["jobs"] and _finite(tenant["policies"][label]["change"])
    }


def _findings(
    entry: dict[str, Any],
    trainers: dict[str, dict[str, Any]],
    metric: str | None,
    whom: str | None,
) -> list[str]:
    change = entry["change"]
    findings = []
    if metric and _finite(change[metric]["change"]):
        findings.append(_finding(whom or _whose(metric), "finish", change[metric]))
    if _timed(entry):
        findings.append(_finding("jobs" if metric or not whom else whom, "are done", change[JCT]))
    jobs = len(entry["training"])
    gained = bool(metric) and verdict(change[metric]) == "better"
    if not (_timed(entry) and jobs > MANY_JOBS):
        findings += _paid(trainers, gained=gained)
    large = change["flows.large.fct_mean"]
    if metric and not trainers and _finite(large["change"]):
        findings.append(_finding("large flows", "finish", large))
    return findings


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


def _timed(entry: dict[str, Any]) -> bool:
    """Whether the completion times of its jobs can be compared."""
    return JCT in entry["change"] and _finite(entry["change"][JCT]["change"])


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
        return f"{whose} are too few to tell ({percent(entry['change'])})"
    ends = percent_interval(interval)
    return f"{whose} show no clear change ({percent(entry['change'])}, 95{SPACE}% interval {ends})"


def _whose(metric: str) -> str:
    return CLASS_WORDS.get(metric.split(".")[1], "flows")


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def _decimals(share: float) -> int:
    return 0 if abs(share) >= 0.0995 else 1


def _percent_number(share: float, *, signed: bool, decimals: int) -> str:
    text = f"{100 * share:+.{decimals}f}" if signed else f"{100 * share:.{decimals}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", MINUS)
