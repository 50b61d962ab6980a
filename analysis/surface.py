"""What was tried of one or two settings, and what it gave: a picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from analysis import words
from analysis.look import styled

SHADES = "viridis_r"  # light is sooner; everybody can tell its steps apart


@styled
def draw(
    path: Path, names: Sequence[str], points: Sequence[Sequence[int]], values_ns: Sequence[float]
) -> None:
    """Sizes in bytes along the axes, the mean iteration by colour or by height."""
    length, unit = words.time_unit(max(values_ns))
    values = np.array(values_ns) / length
    best = int(np.argmin(values))
    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    axes = figure.subplots()
    sizes = np.log2(np.array(points, dtype=float) / 1e6)
    if len(names) == 2:
        across, up = sizes.T
        if len(points) >= 4:
            shades = axes.tricontourf(Triangulation(across, up), values, 12, cmap=SHADES)
        dots = axes.scatter(across, up, c=values, cmap=SHADES, edgecolors="black", s=36)
        dots.set_clip_on(False)
        figure.colorbar(shades if len(points) >= 4 else dots, label=f"mean iteration ({unit})")
        axes.plot(across[best], up[best], marker="*", markersize=16, color="black", clip_on=False)
        axes.set_ylabel(f"{names[1]} (MB)")
        axes.yaxis.set_major_formatter(_megabytes)
    else:
        order = np.argsort(sizes[:, 0])
        axes.plot(sizes[order, 0], values[order], marker="o")
        axes.plot(sizes[best, 0], values[best], marker="*", markersize=16, color="black")
        axes.set_ylabel(f"mean iteration ({unit})")
    axes.set_xlabel(f"{names[0]} (MB)")
    axes.xaxis.set_major_formatter(_megabytes)
    between = ";\ncolours between dots are interpolated" if len(names) == 2 else ""
    axes.set_title(f"The star is the best; every dot was simulated{between}", fontsize=10)
    figure.savefig(path, dpi=120)


def _megabytes(exponent: float, _: float) -> str:
    return f"{2**exponent:.3g}"
