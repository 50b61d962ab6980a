"""Waits at a barrier: from a worker's gradient being at every server until it may go on."""

from analysis.metrics.base import JOBS, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import TIME, VARIANCE

METRICS = (
    Metric(
        "barrier_wait_mean", JOBS, TIME, "lower", "mean wait at a barrier",
        "mean wait of the workers at a barrier; mean over a job's barriers, then over jobs",
        Over("wait_mean_ns", MEAN), row=True, swept=True,
    ),
    Metric(
        "barrier_wait_variance", JOBS, VARIANCE, "lower", "variance of the waits at a barrier",
        "variance of the workers' waits within a barrier; mean over a job's barriers, then over "
        "jobs",
        Over("wait_variance_ms2", MEAN), row=True, swept=True,
    ),
)  # fmt: skip
