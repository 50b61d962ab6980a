"""What became of the jobs of a cluster."""

from analysis.metrics.base import CLUSTER, Metric, Whole
from analysis.metrics.unit import COUNT

METRICS = (
    Metric(
        "count", CLUSTER, COUNT, "neither", "jobs", "jobs that came, all seeds together",
        Whole(lambda jobs: int(jobs["status"].notna().sum())),
    ),
    Metric(
        "finished", CLUSTER, COUNT, "higher", "finished", "of these, jobs that were done",
        Whole(lambda jobs: int((jobs["status"] == "finished").sum())), row=True, row_at=6,
    ),
)  # fmt: skip
