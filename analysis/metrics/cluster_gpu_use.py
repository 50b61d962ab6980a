"""How much of a cluster's GPUs is held."""

from analysis.metrics.base import CLUSTER, Metric, Whole
from analysis.metrics.cluster_makespan import of_runs
from analysis.metrics.unit import SHARE

METRIC = Metric(
    "gpu_use", CLUSTER, SHARE, "higher", "use of GPUs",
    "GPUs held over GPUs there, from the first arrival to the last end; mean over seeds",
    Whole(lambda jobs: of_runs("gpu_use", jobs)), row=True, row_at=8,
)  # fmt: skip
