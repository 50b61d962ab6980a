"""How long jobs of a cluster take from their arrival until their last task is done."""

from analysis.metrics.base import CLUSTER, Metric, Over, Values
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import TIME

METRICS = (
    Metric(
        "completion_mean", CLUSTER, TIME, "lower", "mean completion time",
        "from a job's arrival until its last task is done; mean over jobs",
        Over("completion_ns", MEAN), headline=True, row=True, swept=True, plot=Values(),
    ),
    Metric(
        "completion_p95", CLUSTER, TIME, "lower", "95th percentile of completion times",
        "the time within which 95 % of the finished jobs were done",
        Over("completion_ns", Statistic(0.95)), row=True, row_at=1,
    ),
)  # fmt: skip
