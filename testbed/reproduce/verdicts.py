"""Published beside measured: reproduced or not, and by how much. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.metrics import SHARE
from basics.errors import BadInput
from basics.hints import nearest
from testbed.reproduce.entry import Entry, Status, Target


@dataclass(frozen=True)
class Verdict:
    target: Target
    ours: float | None
    low: float | None = None
    high: float | None = None

    @property
    def status(self) -> Status:
        if self.ours is None:
            return "missing"
        near = abs(self.ours - self.target.value) <= self.target.tolerance * (1 + 1e-9)
        return "reproduced" if near else "differs"

    @property
    def broken(self) -> bool:
        """Whether the entry says that this should hold, and it does not."""
        return self.target.holds and self.status != "reproduced"

    @property
    def off_by(self) -> str:
        """Points for changes and shares, else a share of the published value."""
        if self.ours is None:
            return ""
        gap = self.ours - self.target.value
        if self.is_share:
            return f"{100 * gap:+.1f} points"
        return f"{100 * gap / self.target.value:+.1f} %" if self.target.value else f"{gap:+g}"

    @property
    def is_share(self) -> bool:
        return self.target.kind != "value" or self.target.unit is SHARE

    def plain(self) -> dict[str, Any]:
        return {
            "what": self.target.what,
            "at": self.target.at,
            "metric": self.target.metric,
            "as": self.target.kind,
            "published": self.target.value,
            "tolerance": self.target.tolerance,
            "reason": self.target.reason,
            "ours": self.ours,
            "interval_95": [self.low, self.high],
            "verdict": self.status,
            "should_hold": self.target.holds,
            "why": self.target.why,
        }


def judge(entry: Entry, table: pd.DataFrame, axes: Mapping[str, tuple[str, ...]]) -> list[Verdict]:
    """Every published number of the entry against the rows of a sweep's summary."""
    return [judged(target, table, axes) for target in entry.targets]


def judged(target: Target, table: pd.DataFrame, axes: Mapping[str, tuple[str, ...]]) -> Verdict:
    for axis, label in target.at.items():
        if axis not in axes:
            raise BadInput(
                f"{target.what}: at: {axis} is no axis of the sweep{nearest(axis, axes)}"
            )
        if label not in axes[axis]:
            raise BadInput(f"{target.what}: at: {axis} has no {label}{nearest(label, axes[axis])}")
    if set(axes) - set(target.at):
        lacking = ", ".join(sorted(set(axes) - set(target.at)))
        raise BadInput(f"{target.what}: at: says nothing about {lacking}")
    row = row_of(target, table)
    if row is None:
        return Verdict(target, None)
    prefix = "" if target.kind == "value" else f"{target.kind}_"
    return Verdict(
        target, _known(row[target.kind]), _known(row[f"{prefix}low"]), _known(row[f"{prefix}high"])
    )


def row_of(target: Target, table: pd.DataFrame) -> Mapping[Any, Any] | None:
    chosen = table[(table["metric"] == target.metric) & (table["policy"] == target.of)]
    for axis, label in target.at.items():
        chosen = chosen[chosen[axis] == label]
    rows = chosen.to_dict("records")
    return rows[0] if rows else None


def _known(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
