"""How many jobs of a cluster are done in time."""

from analysis.metrics.base import CLUSTER, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE

METRIC = Metric(
    "deadlines_met", CLUSTER, SHARE, "higher", "deadlines met",
    "of the jobs that have a deadline, those that were done by then",
    Over("met", MEAN), row=True, row_at=4,
)  # fmt: skip
