"""What became of the jobs."""

from analysis.metrics.base import JOBS, Metric, Whole
from analysis.metrics.unit import COUNT

METRICS = (
    Metric(
        "count", JOBS, COUNT, "neither", "jobs", "jobs, all seeds together",
        Whole(lambda jobs: int(jobs["status"].notna().sum())),
    ),
    Metric(
        "finished", JOBS, COUNT, "higher", "finished", "of these, jobs that made all their steps",
        Whole(lambda jobs: int((jobs["status"] == "finished").sum())),
    ),
    Metric(
        "failed", JOBS, COUNT, "lower", "failed", "of these, jobs that broke",
        Whole(lambda jobs: int((jobs["status"] == "failed").sum())),
    ),
)  # fmt: skip
