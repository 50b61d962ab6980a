"""What links carry in the measured window, in bytes, by tier: what aggregation in racks saves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from analysis.metrics.base import LINKS, Metric, Whole
from analysis.metrics.unit import SIZE

if TYPE_CHECKING:
    import pandas as pd


def carried(place: str) -> "Callable[[pd.DataFrame], float]":
    return lambda links: sum(links.loc[links["place"] == place, "byte"].tolist())


def by(place: str, which: str) -> Metric:
    return Metric(
        f"carried_{place}", LINKS, SIZE, "neither", f"carried by {which}",
        f"bytes that {which} carry in both directions, each link for itself; mean over seeds",
        Whole(carried(place)),
    )  # fmt: skip


METRICS = (
    by("hosts", "cables of hosts"),
    by("racks", "uplinks of racks"),
    by("core", "links above"),
)
