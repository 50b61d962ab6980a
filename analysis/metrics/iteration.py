"""How long an iteration of a training job takes: what training pays for a policy."""

from analysis.metrics.base import TRAINING, Bars, Metric, Over
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import TIME

COLUMN = "duration_ns"

METRICS = (
    Metric(
        "iteration_mean", TRAINING, TIME, "lower", "mean iteration",
        "time of an iteration that lies in the measured window whole; mean over workers and "
        "iterations",
        Over(COLUMN, MEAN), heading="iteration time", headline=True, row=True, swept=True,
        plot=Bars("Mean"),
    ),
    Metric(
        "iteration_p99", TRAINING, TIME, "lower", "p99 iteration",
        "time of an iteration that 99 % of them do not exceed",
        Over(COLUMN, Statistic(0.99)), row=True, plot=Bars("99th percentile"),
    ),
)  # fmt: skip
