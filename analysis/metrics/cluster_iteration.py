"""How long jobs of a cluster that train need for an iteration, and how much of it they compute."""

from analysis.metrics.base import CLUSTER, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE, TIME

METRICS = (
    Metric(
        "iteration_mean", CLUSTER, TIME, "lower", "mean iteration",
        "of jobs that train: the mean iteration of each, mean over jobs",
        Over("iteration_ns", MEAN), row=True, row_at=7,
    ),
    Metric(
        "computing_mean", CLUSTER, SHARE, "higher", "computing",
        "of jobs that train: the part of its iterations in which each computes, mean over jobs",
        Over("computing", MEAN), row=True, row_at=7,
    ),
)  # fmt: skip
