"""From the first arrival until the last job of a cluster is done."""

from typing import TYPE_CHECKING

from analysis.metrics.base import CLUSTER, Metric, Whole
from analysis.metrics.unit import TIME

if TYPE_CHECKING:
    import pandas as pd


def of_runs(column: str, jobs: "pd.DataFrame") -> float:
    """What every row of a run says of the whole run; the mean over seeds."""
    return float(jobs.groupby("seed")[column].first().mean())


METRIC = Metric(
    "makespan", CLUSTER, TIME, "lower", "makespan",
    "from the first arrival until the last job is done, mean over seeds; none if one is not",
    Whole(lambda jobs: of_runs("makespan_ns", jobs)), row=True, row_at=3,
)  # fmt: skip
