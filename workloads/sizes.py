"""How large flows are: cumulative distributions of sizes, one CSV in `workloads/sizes/` each.

Adding a distribution is adding a CSV: `#` lines that say where it comes from and every edit made
to it, then `size_byte,probability` rows that rise from probability 0 to 1. Between two points
sizes are spread evenly (the probability is linear in the size).
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from basics.errors import BadInput
from basics.units import shown
from workloads.shelf import Shelf, commented_csv

FOLDER = Path(__file__).with_name("sizes")
PROBABILITY = re.compile(r"[0-9]+(\.[0-9]*)?([eE]-?[0-9]{1,3})?|\.[0-9]+")


@dataclass(frozen=True)
class SizeCdf:
    """A distribution of flow sizes: (size in bytes, probability of at most that size) points."""

    name: str
    source: str
    points: tuple[tuple[int, float], ...]

    @property
    def mean_byte(self) -> float:
        return sum(
            (right - left) * (small + large) / 2
            for (small, left), (large, right) in zip(self.points, self.points[1:], strict=False)
        )

    def quantile(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sizes below which a share `u` of the flows lies."""
        sizes, probabilities = zip(*self.points, strict=True)
        sized: npt.NDArray[np.float64] = np.interp(u, probabilities, sizes)
        return sized

    def probability_at_most(self, byte: float) -> float:
        """The share of flows of at most `byte` bytes."""
        sizes, probabilities = zip(*self.points, strict=True)
        if byte < sizes[0]:
            return 0.0
        return float(np.interp(byte, sizes, probabilities))


@cache
def available() -> Shelf[SizeCdf]:
    """Every distribution in the folder by the name used in experiment files."""
    return Shelf(FOLDER, read)


def read(path: Path) -> SizeCdf:
    comments, rows = commented_csv(path, ["size_byte", "probability"])
    points: list[tuple[int, float]] = []
    for line, (size, probability) in rows:
        if not re.fullmatch("[0-9]{1,18}", size) or not PROBABILITY.fullmatch(probability):
            raise BadInput(
                f"{path}:{line}: found {shown(f'{size},{probability}')}; a row is a whole number "
                "of bytes and a probability, like 10000,0.15"
            )
        point = (int(size), float(probability))
        if points and not (point[0] > points[-1][0] and point[1] > points[-1][1]):
            raise BadInput(f"{path}:{line}: sizes and probabilities must both rise")
        points.append(point)
    if len(points) < 2 or points[0][1] != 0 or points[-1][1] != 1:
        raise BadInput(f"{path}: the points must go from probability 0 to probability 1")
    return SizeCdf(path.stem, "\n".join(comments), tuple(points))
