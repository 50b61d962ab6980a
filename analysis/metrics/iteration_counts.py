"""How much of a job's training lies in the measured window."""

from analysis.metrics.base import TRAINING, Metric, Whole
from analysis.metrics.unit import COUNT

METRICS = (
    Metric(
        "count", TRAINING, COUNT, "neither", "iterations of workers",
        "iterations in the measured window, each worker's counted, all seeds together",
        Whole(len),
    ),
    Metric(
        "iterations", TRAINING, COUNT, "neither", "iterations",
        "iterations in the measured window, counted once for all workers, all seeds together",
        Whole(lambda rows: len(rows[["seed", "iteration"]].drop_duplicates())),
    ),
)  # fmt: skip
