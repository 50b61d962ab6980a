"""How much of its time a job's workers wait for gradients."""

from typing import TYPE_CHECKING

from analysis.metrics.base import TRAINING, Metric, Whole
from analysis.metrics.unit import SHARE

if TYPE_CHECKING:
    import pandas as pd


def wait_share(rows: "pd.DataFrame") -> float:
    total = float(rows["duration_ns"].to_numpy(dtype=float).sum())
    return float(rows["wait_ns"].sum()) / total if total else float("nan")


METRIC = Metric(
    "wait_share", TRAINING, SHARE, "lower", "share of time waiting",
    "share of their iterations' time that workers wait for gradients",
    Whole(wait_share), row=True,
)  # fmt: skip
