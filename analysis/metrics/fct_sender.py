"""Flow completion time as its sender sees it, and as some simulators count it.

A round trip's half after the receiver has the last byte, or more where acknowledgements wait.
"""

from analysis.metrics.base import FLOWS, Metric, Over
from analysis.metrics.statistic import MEAN, Statistic
from analysis.metrics.unit import TIME

COLUMN = "fct_sender_ns"


def quantile(name: str, share: float) -> Metric:
    return Metric(
        f"fct_sender_{name}", FLOWS, TIME, "lower", f"{name} FCT at the sender",
        f"flow completion time at the sender that {100 * share:g} % of the flows do not exceed",
        Over(COLUMN, Statistic(share)),
        heading=f"{100 * share:g}th percentile of FCT at the sender",
    )  # fmt: skip


METRICS = (
    Metric(
        "fct_sender_mean", FLOWS, TIME, "lower", "mean FCT at the sender",
        "from the connection attempt until the sender has the last acknowledgement (live, the "
        "packet with which the receiver closes); mean of the flows of which it had it",
        Over(COLUMN, MEAN), heading="FCT at the sender",
    ),
    quantile("p50", 0.50),
    quantile("p99", 0.99),
)  # fmt: skip
