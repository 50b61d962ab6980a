"""Flow completion time: from connect() until the receiver has the last byte."""

from analysis.metrics.base import FLOWS, Bars, Metric, Over
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import TIME

COLUMN = "fct_ns"


def quantile(name: str, share: float, plot: Bars | None = None) -> Metric:
    """A row of the comparison if it is drawn, else for whoever asks."""
    return Metric(
        name, FLOWS, TIME, "lower", f"{name.removeprefix('fct_')} FCT",
        f"flow completion time that {100 * share:g} % of the finished flows do not exceed",
        Over(COLUMN, Statistic(share)), heading=f"{100 * share:g}th percentile of FCT",
        row=plot is not None, plot=plot,
    )  # fmt: skip


METRICS = (
    Metric(
        "fct_mean", FLOWS, TIME, "lower", "mean FCT",
        "flow completion time, from the connection attempt until the receiver has the last byte; "
        "mean of the finished flows",
        Over(COLUMN, MEAN), heading="FCT", headline=True, row=True, swept=True, plot=Bars("Mean"),
    ),
    quantile("fct_p50", 0.50),
    quantile("fct_p95", 0.95),
    quantile("fct_p99", 0.99, Bars("99th percentile")),
)  # fmt: skip
