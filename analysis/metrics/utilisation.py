"""What links carry in the measured window, as a share of their rate."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from analysis.metrics.base import BANDS, LINKS, TIERS, Metric, Subject, Whole
from analysis.metrics.unit import COUNT, SHARE

if TYPE_CHECKING:
    import pandas as pd


def evenly(column: "pd.Series") -> float:
    """The mean in which every link counts the same."""
    values = column.tolist()
    return sum(values) / len(values) if values else float("nan")


def of_links(subject: Subject) -> Iterator[Metric]:
    yield Metric(
        "utilisation_mean", subject, SHARE, "neither", "mean utilisation",
        "what the links carry as a share of their rate; mean over links and seeds",
        Whole(lambda links: evenly(links["utilisation"])), headline=True, row=True,
    )  # fmt: skip
    yield Metric(
        "utilisation_max", subject, SHARE, "neither", "utilisation of the busiest",
        "what the busiest of the links carries as a share of its rate; mean over seeds",
        Whole(lambda links: max(links["utilisation"].tolist(), default=float("nan"))),
    )  # fmt: skip


METRICS = (
    *of_links(LINKS),
    *of_links(TIERS),
    Metric(
        "drops", LINKS, COUNT, "lower", "drops",
        "packets dropped at all queues, all seeds together",
        Whole(lambda links: sum(links["drops"].tolist())),
    ),
    Metric(
        "", BANDS, SHARE, "neither", "carried",
        "what a queue class carries as a share of the rate; mean over all links",
        Whole(lambda links: evenly(links["share"])),
    ),
)  # fmt: skip
