"""How well compute and transfers overlap, between not at all and as far as possible: TicTac's E."""

from typing import TYPE_CHECKING

from analysis.metrics.base import TRAINING, Metric, Whole
from analysis.metrics.statistic import mean
from analysis.metrics.unit import RATIO

if TYPE_CHECKING:
    import pandas as pd


def efficiency(rows: "pd.DataFrame") -> float:
    """(U - m) / (U - L): U all one after another, L the longest alone, m as it was."""
    if rows.empty:
        return float("nan")
    serial, longest = float(rows["serial_ns"].iloc[0]), float(rows["longest_ns"].iloc[0])
    took = mean(rows["duration_ns"].to_numpy(dtype=float))
    return (serial - took) / (serial - longest) if serial > longest else float("nan")


METRIC = Metric(
    "order_efficiency", TRAINING, RATIO, "higher", "efficiency of the order",
    "TicTac's E, of jobs with servers: (U - m) / (U - L), with U the time of compute, pushes and "
    "reads one after another, L that of the longest of them alone (a push and a read take the "
    "model's bytes at a link's rate), and m the mean iteration; 1 is a perfect overlap, 0 none",
    Whole(efficiency),
)  # fmt: skip
