"""How long jobs of a cluster are suspended."""

from analysis.metrics.base import CLUSTER, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import TIME

METRIC = Metric(
    "suspended_mean", CLUSTER, TIME, "lower", "mean time suspended",
    "between the stretches of a job's task, mean over its tasks; mean over jobs",
    Over("suspended_ns", MEAN),
)  # fmt: skip
