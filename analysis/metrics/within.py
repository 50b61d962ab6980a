"""Service levels: how many of the flows were there in time."""

from typing import TYPE_CHECKING

from analysis.metrics.base import FLOWS, Metric, Whole
from analysis.metrics.unit import SHARE

if TYPE_CHECKING:
    import pandas as pd

SLOWDOWNS = (2, 5, 10)
TIMES = {"1ms": 1_000_000, "10ms": 10_000_000, "100ms": 100_000_000}


def within(name: str, bound: str, column: str, most: float) -> Metric:
    def share(flows: "pd.DataFrame") -> float:
        # An unfinished flow has no number, and is not within anything.
        return float((flows[column] <= most).mean())

    return Metric(
        f"within_{name}", FLOWS, SHARE, "higher", f"share within {bound}",
        f"share of the flows that were complete within {bound}; unfinished ones were not",
        Whole(share),
    )  # fmt: skip


METRICS = (
    *(
        within(f"{times}x", f"{times} times their ideal time (as in slowdown)", "slowdown", times)
        for times in SLOWDOWNS
    ),
    *(within(name, name.replace("ms", " ms"), "fct_ns", most) for name, most in TIMES.items()),
)
