"""How large flows are: cumulative distributions of sizes, one CSV in `workloads/sizes/` each.

Adding a distribution is adding a CSV: `#` lines that say where it comes from and every edit made
to it, then `size_byte,probability` rows that rise from probability 0 to 1. Between two points
sizes are spread evenly (the probability is linear in the size).
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.errors import BadInput

FOLDER = Path(__file__).with_name("sizes")


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
def available() -> dict[str, SizeCdf]:
    """Every distribution in the folder by the name used in experiment files."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.csv"))}


def read(path: Path) -> SizeCdf:
    comments, rows = commented_csv(path, ["size_byte", "probability"])
    points: list[tuple[int, float]] = []
    for line, (size, probability) in rows:
        try:
            point = (int(size), float(probability))
        except ValueError as error:
            raise BadInput(f"{path}: line {line}: {error}") from None
        if points and not (point[0] > points[-1][0] and point[1] > points[-1][1]):
            raise BadInput(f"{path}: line {line}: sizes and probabilities must both rise")
        points.append(point)
    if len(points) < 2 or points[0][0] < 0 or points[0][1] != 0 or points[-1][1] != 1:
        raise BadInput(f"{path}: the points must go from probability 0 to probability 1")
    return SizeCdf(path.stem, "\n".join(comments), tuple(points))


def commented_csv(path: Path, header: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The `#` lines of a CSV file without their mark, and its rows with their line numbers."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    table = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    cells = [(n, next(csv.reader([line]))) for n, line in table]
    if not cells or cells[0][1] != header:
        raise BadInput(f"{path}: the first row must be {','.join(header)}")
    for n, row in cells:
        if len(row) != len(header):
            raise BadInput(f"{path}: line {n}: found {len(row)} columns instead of {len(header)}")
    return comments, cells[1:]
