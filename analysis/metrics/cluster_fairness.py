"""Whether jobs of a cluster get what an equal share would give them."""

from analysis.metrics.base import CLUSTER, Metric, Over
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import RATIO

MEANING = (
    "completion time over that with an equal share (after Themis), which is the time alone, times "
    "the number of jobs there on average, times the part of the cluster that the job asks for, if "
    "that makes more than 1"
)

METRICS = (
    Metric(
        "fairness_mean", CLUSTER, RATIO, "lower", "mean finish-time fairness",
        f"{MEANING}; mean over jobs", Over("fairness", MEAN), row=True, row_at=5,
    ),
    Metric(
        "fairness_worst", CLUSTER, RATIO, "lower", "worst finish-time fairness",
        f"{MEANING}; of the worst job", Over("fairness", Statistic(1.0)),
    ),
)  # fmt: skip
