"""What a job's first worker waits for its last: TicTac's measure of stragglers."""

from analysis.metrics.base import JOBS, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE

METRIC = Metric(
    "straggler_spread", JOBS, SHARE, "lower", "share of time between first and last worker",
    "by how much the last worker came to each barrier after the first, as a share of the time; "
    "mean over jobs",
    Over("straggler_spread", MEAN),
)  # fmt: skip
