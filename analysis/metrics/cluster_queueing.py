"""How long jobs of a cluster wait for their first task to run."""

from analysis.metrics.base import CLUSTER, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import TIME

METRIC = Metric(
    "queueing_mean", CLUSTER, TIME, "lower", "mean queueing",
    "from a job's arrival until its first task runs; mean over jobs that started",
    Over("queueing_ns", MEAN), row=True, row_at=2,
)  # fmt: skip
