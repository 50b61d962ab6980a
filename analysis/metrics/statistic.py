"""Many numbers as one: the mean, or a quantile.

Quantiles are values that really occurred: p99 is the smallest number that 99 % of them did not
exceed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def quantile(values: Floats, share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    if not len(values):
        return float("nan")
    rank = int(np.ceil(share * len(values) - 1e-9))
    return float(np.sort(values)[max(rank, 1) - 1])


@dataclass(frozen=True)
class Statistic:
    share: float | None  # of a quantile; None is the mean

    def of(self, values: Floats) -> float:
        return mean(values) if self.share is None else quantile(values, self.share)


MEAN = Statistic(None)
