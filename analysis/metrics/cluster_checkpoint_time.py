"""How long checkpoints of a cluster's training jobs travel."""

from analysis.metrics.base import CLUSTER, Metric, Whole
from analysis.metrics.cluster_makespan import of_runs
from analysis.metrics.unit import TIME

METRIC = Metric(
    "checkpoint_mean", CLUSTER, TIME, "lower", "mean time of checkpoints",
    "from when a host asks for a checkpoint until it is there; mean over checkpoints, then seeds",
    Whole(lambda jobs: of_runs("checkpoint_ns", jobs)), row=True, row_at=9,
)  # fmt: skip
