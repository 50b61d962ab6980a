"""Does what the experiment file claims hold?

A claim holds if the measured value satisfies its bound. Whether the whole 95 % interval does too
is said beside it: "clear" if so, "within noise" if the interval reaches over the bound.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis import metrics, words
from analysis.compare import Pair
from analysis.folder import PlannedClaim
from analysis.metrics import RATIO, Metric

NOISE = "within noise"


def check(
    claim: PlannedClaim, policies: Mapping[str, Any], changes: Mapping[Pair, Mapping[str, Any]]
) -> dict[str, Any]:
    """The claim as written, what was measured, and whether it holds."""
    measured, interval, problem = _measured(claim, policies, changes)
    if problem is None and not math.isfinite(measured):
        problem = "nothing was measured"
    holds = problem is None and _satisfies(claim, measured)
    return {
        "metric": claim.metric,
        "of": claim.of,
        "against": claim.against,
        "kind": claim.kind,
        "bound": claim.bound,
        "value": claim.value,
        "text": claim.text,
        "measured": measured if problem is None else None,
        "interval_95": interval,
        "holds": holds,
        "certainty": _certainty(claim, holds, interval) if problem is None else None,
        "problem": problem,
    }


def metric_of(policy: Mapping[str, Any], metric: str) -> tuple[float | None, words.Interval]:
    """(value, interval) of a metric such as flows.small.fct_mean; None if there is none."""
    found = metrics.named(metric)
    return (None, None) if found is None else value_of(policy, *found)


def value_of(
    policy: Mapping[str, Any], metric: Metric, whose: str = ""
) -> tuple[float | None, words.Interval]:
    """The same for a metric of the registry. A summary of before it was there does not have it."""
    entry: Any = policy
    for part in (*metric.of.section.split("."), *([whose] if whose else [])):
        entry = entry.get(part) if isinstance(entry, dict) else None
    value = entry.get(metric.key) if isinstance(entry, dict) else None
    if not isinstance(value, int | float):
        return None, None
    return float(value), entry.get("interval_95", {}).get(metric.key)


@dataclass(frozen=True)
class ToldClaim:
    """A claim in words: what was asked, what was measured, and what follows."""

    what: str
    asked: str
    measured: str
    interval: str
    holds: bool
    certainty: str  # clear, within noise, or nothing to say
    problem: str

    @property
    def said(self) -> str:
        return f"{self.what}: {self.asked}"

    @property
    def verdict(self) -> str:
        """Whether it holds; "within noise": other seeds might turn out differently."""
        noise = ", within noise" if self.certainty == NOISE else ""
        return f"{'holds' if self.holds else 'fails'}{noise}"

    @property
    def found(self) -> str:
        if self.problem:
            return f"not measured: {self.problem}"
        interval = f", 95{words.SPACE}% interval {self.interval}" if self.interval else ""
        return f"measured {self.measured}{interval}"

    def __str__(self) -> str:
        return f"claim {self.verdict}: {self.what}: asked {self.asked}; {self.found}"


def told_all(summary: Mapping[str, Any]) -> list[ToldClaim]:
    """Every claim of a summary in words."""
    titles = {label: entry["title"] for label, entry in summary["policies"].items()}
    return [told(claim, titles) for claim in summary["claims"]]


def told(claim: Mapping[str, Any], titles: Mapping[str, str]) -> ToldClaim:
    """A claim as `check` left it, in words; `titles` are those of the policies by label."""
    of = titles.get(claim["of"], claim["of"])
    if claim["kind"] == "change":
        of = f"{of} against {titles.get(claim['against'], claim['against'])}"
        shown: Callable[[float | None], str] = words.percent
        between: Callable[[words.Interval], str] = words.percent_interval
    else:
        found = metrics.named(claim["metric"])
        # A metric that is not there has no value either, only the bound that was asked for.
        unit = found[0].unit if found else RATIO
        shown, between = unit.shown, unit.interval
    return ToldClaim(
        what=f"{claim['metric']} of {of}",
        asked=f"{claim['bound']} {shown(claim['value'])}",
        measured=shown(claim["measured"]),
        interval=between(claim["interval_95"]),
        holds=claim["holds"],
        certainty=claim["certainty"] or "",
        problem=claim["problem"] or "",
    )


def _measured(
    claim: PlannedClaim, policies: Mapping[str, Any], changes: Mapping[Pair, Mapping[str, Any]]
) -> tuple[float, words.Interval, str | None]:
    nothing = float("nan")
    for label in (claim.of, claim.against):
        if label is not None and label not in policies:
            return nothing, None, f"policy {label} was not run"
    found = metrics.named(claim.metric)
    value, interval = value_of(policies[claim.of], *found) if found else (None, None)
    if found is None or value is None:
        return nothing, None, f"there is no metric {claim.metric}"
    if claim.kind == "value":
        return value, interval, None
    if claim.against is None:
        return nothing, None, "a change needs a policy to be held against"
    metric, whose = found
    known = changes.get((claim.of, claim.against), {}).get(metric.path(whose))
    if known is not None:
        return known["change"], known["interval_95"], None
    base, _ = value_of(policies[claim.against], metric, whose)
    if not base:
        return nothing, None, f"{claim.metric} is zero or missing under {claim.against}"
    return value / base - 1, None, None


def _satisfies(claim: PlannedClaim, measured: float) -> bool:
    return measured <= claim.value if claim.bound == "at most" else measured >= claim.value


def _certainty(claim: PlannedClaim, holds: bool, interval: words.Interval) -> str | None:
    ends = words.known(interval)
    if ends is None:
        return None
    return "clear" if all(_satisfies(claim, end) == holds for end in ends) else NOISE
