"""Slowdown of a flow: its completion time over what it would take with the network to itself.

That ideal is a round trip and its bytes at line rate (analysis/ideal.py). A flow that meets nobody
still pays for headers, half a round trip more, and slow start: its slowdown is above 1.
"""

from analysis.metrics.base import FLOWS, Metric, Over, Values
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import RATIO

COLUMN = "slowdown"


def quantile(name: str, share: float, plot: Values | None = None) -> Metric:
    return Metric(
        name, FLOWS, RATIO, "lower", f"{name.removeprefix('slowdown_')} slowdown",
        f"slowdown that {100 * share:g} % of the finished flows do not exceed",
        Over(COLUMN, Statistic(share)), heading=f"{100 * share:g}th percentile of slowdown",
        plot=plot,
    )  # fmt: skip


METRIC = Metric(
    "slowdown_mean", FLOWS, RATIO, "lower", "mean slowdown",
    "flow completion time over its ideal: one round trip (the delays of the file) and the flow's "
    "bytes at the rate of the slower of its two host links; mean of the finished flows",
    Over(COLUMN, MEAN),
)  # fmt: skip
