"""What checkpoints of a cluster's training jobs cost the network."""

from analysis.metrics.base import CLUSTER, Metric, Whole
from analysis.metrics.cluster_makespan import of_runs
from analysis.metrics.unit import SIZE

METRIC = Metric(
    "checkpoint_sum", CLUSTER, SIZE, "lower", "bytes of checkpoints",
    "what was sent of checkpoints to hosts that had none, added up; mean over seeds",
    Whole(lambda jobs: of_runs("checkpoint_byte", jobs)), row=True, row_at=9,
)  # fmt: skip
