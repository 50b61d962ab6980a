"""How many flows there were, and how many did not finish before their run ended."""

from analysis.metrics.base import FLOWS, Metric, Whole
from analysis.metrics.unit import COUNT

METRICS = (
    Metric(
        "count", FLOWS, COUNT, "neither", "flows",
        "flows that the schedule starts in the measured window, all seeds together",
        Whole(len),
    ),
    Metric(
        "unfinished", FLOWS, COUNT, "lower", "unfinished",
        "of these, flows that had not finished when their run ended; they are in no mean and in no "
        "quantile",
        Whole(lambda flows: int(flows["fct_ns"].isna().sum())),
    ),
)  # fmt: skip
