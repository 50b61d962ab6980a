"""Does what the experiment file claims hold?

A claim holds if the measured value satisfies its bound. Whether the whole 95 % interval does too
is said beside it: "clear" if so, "within noise" if the interval reaches over the bound.
"""

import math
from collections.abc import Mapping
from typing import Any

from analysis.compare import Pair
from analysis.folder import Claim


def check(
    claim: Claim, policies: Mapping[str, Any], changes: Mapping[Pair, Mapping[str, Any]]
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


def metric_of(policy: Mapping[str, Any], metric: str) -> tuple[float | None, list[float] | None]:
    """(value, interval) of a dotted metric such as flows.small.fct_mean; None if there is none.

    The unit may be left out: flows.small.fct_mean finds fct_mean_ns.
    """
    parent, _, leaf = metric.rpartition(".")
    section, _, name = parent.partition(".")
    found: Any = policy.get(section, {})
    if name:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return None, None
    for key in (leaf, f"{leaf}_ns", f"{leaf}_ms2"):
        value = found.get(key)
        if isinstance(value, int | float):
            interval: list[float] | None = found.get("interval_95", {}).get(key)
            return float(value), interval
    return None, None


def _measured(
    claim: Claim, policies: Mapping[str, Any], changes: Mapping[Pair, Mapping[str, Any]]
) -> tuple[float, list[float] | None, str | None]:
    nothing = float("nan")
    for label in (claim.of, claim.against):
        if label is not None and label not in policies:
            return nothing, None, f"policy {label} was not run"
    value, interval = metric_of(policies[claim.of], claim.metric)
    if value is None:
        return nothing, None, f"there is no metric {claim.metric}"
    if claim.kind == "value":
        return value, interval, None
    if claim.against is None:
        return nothing, None, "a change needs a policy to be held against"
    known = changes.get((claim.of, claim.against), {}).get(claim.metric.removesuffix("_ns"))
    if known is not None:
        return known["change"], known["interval_95"], None
    base, _ = metric_of(policies[claim.against], claim.metric)
    if not base:
        return nothing, None, f"{claim.metric} is zero or missing under {claim.against}"
    return value / base - 1, None, None


def _satisfies(claim: Claim, measured: float) -> bool:
    return measured <= claim.value if claim.bound == "at most" else measured >= claim.value


def _certainty(claim: Claim, holds: bool, interval: list[float] | None) -> str | None:
    if interval is None or not all(math.isfinite(end) for end in interval):
        return None
    return "clear" if all(_satisfies(claim, end) == holds for end in interval) else "within noise"
