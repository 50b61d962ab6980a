"""One cell in both engines, and how numbers of two engines are told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import agreement, words
from analysis.agreement import BothEngines
from bench.agreement.cells import Cell

KINDS = (
    ("iteration", "Mean iteration time", "3 %"),
    ("small flows", "Mean completion time of small flows", "15 %"),
    ("large flows", "Mean completion time of large flows", "15 %"),
)


@dataclass(frozen=True)
class Compared:
    cell: Cell
    virtual: Mapping[str, Any]  # by policy
    fluid: Mapping[str, Any]
    is_new: bool = True  # the reference, made since the virtual engine last changed

    @property
    def rows(self) -> list[BothEngines]:
        return agreement.rows(self.virtual, self.fluid)

    def values(self, kind: str, policy: str) -> list[BothEngines]:
        """Of each job, or of flows."""
        return [
            row
            for row in self.rows
            if kind in row.what and row.policy == policy and not row.is_change
        ]

    def change(self, of: BothEngines) -> BothEngines | None:
        """What its policy changes in a value."""
        found = (row for row in self.rows if row.is_change and row.what == of.what)
        return next((row for row in found if row.policy == of.policy), None)


def without_timeouts(compared: Compared) -> list[float]:
    """Differences of the means of small flows that waited for no timeout, by policy."""
    key = "mean_without_timeouts_ns"
    pairs = [
        (numbers["flows"]["small"][key], compared.fluid[label]["flows"]["small"][key])
        for label, numbers in compared.virtual.items()
    ]
    return [fluid / virtual - 1 for virtual, fluid in pairs if virtual and fluid]


def within_twice(row: BothEngines) -> bool:
    """Whether a mean is at most twice, and at least half, of the reference."""
    return 0.5 <= 1 + row.apart <= 2.0


def both_tails(cells: Sequence[Compared]) -> Iterator[tuple[str, str, float, float]]:
    """Cell, policy, and the 99th percentile of slowdown in both engines."""
    for compared in cells:
        for policy, numbers in compared.virtual.items():
            virtual = numbers["flows"].get("all", {}).get(agreement.TAIL)
            fluid = compared.fluid[policy]["flows"]["all"][agreement.TAIL]
            if virtual and fluid:
                yield compared.cell.name, policy, virtual, fluid


def percent(share: float, sign: str = "+") -> str:
    return f"{100 * share:{sign}.1f} %".replace("-", words.MINUS)


def points(share: float, sign: str = "+") -> str:
    return f"{100 * share:{sign}.1f} points".replace("-", words.MINUS)
