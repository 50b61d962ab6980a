"""Jain's fairness index: 1 if all mixes get the same, 1 over their number if one gets all."""

from typing import TYPE_CHECKING

from analysis.metrics.base import SHARING, Metric, Whole
from analysis.metrics.unit import RATIO

if TYPE_CHECKING:
    import pandas as pd


def of_seeds(mixes: "pd.DataFrame") -> float:
    """The mean over seeds; none where nobody got anything."""
    several = mixes.groupby("seed")["goodput_bps"]
    squares = (mixes["goodput_bps"] ** 2).groupby(mixes["seed"]).sum()
    found = several.sum() ** 2 / (several.count() * squares.where(squares > 0))
    return float(found.mean())


METRIC = Metric(
    "jain", SHARING, RATIO, "higher", "Jain's index of goodput",
    "Jain's fairness index of the mixes' goodputs, (sum x)^2 / (n sum x^2): 1 is all the same, 1/n "
    "is one gets all; mean over seeds",
    Whole(of_seeds), headline=True, row=True,
)  # fmt: skip
