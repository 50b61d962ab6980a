"""Job completion time: from a job's start until its last step is done."""

from analysis.metrics.base import JOBS, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import TIME

METRIC = Metric(
    "jct_mean", JOBS, TIME, "lower", "mean completion time",
    "job completion time, from a job's start until its last step is done; mean over jobs",
    Over("jct_ns", MEAN), heading="job completion time", headline=True, row=True, swept=True,
)  # fmt: skip
