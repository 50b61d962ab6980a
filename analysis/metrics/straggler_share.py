"""What jobs lose to their last worker."""

from analysis.metrics.base import JOBS, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE

METRIC = Metric(
    "straggler_share", JOBS, SHARE, "lower", "share of time lost to the last worker",
    "by how much the last worker came to each barrier after the median one, as a share of the "
    "time; mean over jobs",
    Over("straggler_share", MEAN), row=True,
)  # fmt: skip
