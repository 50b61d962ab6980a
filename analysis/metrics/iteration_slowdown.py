"""What a job pays for sharing: its iterations over what their compute alone takes by the plan."""

from typing import TYPE_CHECKING

from analysis.metrics.base import TRAINING, Metric, Whole
from analysis.metrics.statistic import mean
from analysis.metrics.unit import RATIO, TIME

if TYPE_CHECKING:
    import pandas as pd


def planned_ns(rows: "pd.DataFrame") -> float:
    """Compute of one iteration by the plan; it is the same in every row."""
    return float(rows["planned_ns"].iloc[0]) if len(rows) else float("nan")


def slowdown(rows: "pd.DataFrame") -> float:
    planned = planned_ns(rows)
    average = mean(rows["duration_ns"].to_numpy(dtype=float))
    return average / planned if planned > 0 else float("nan")


METRICS = (
    Metric(
        "slowdown", TRAINING, RATIO, "lower", "time over compute alone",
        "mean iteration over the time that its compute alone takes by the plan",
        Whole(slowdown), row=True,
    ),
    Metric(
        "compute", TRAINING, TIME, "neither", "compute of an iteration",
        "time that the compute of an iteration takes by the plan",
        Whole(planned_ns),
    ),
)  # fmt: skip
