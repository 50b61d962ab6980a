"""The numbers themselves: pure functions from record tables to metrics.

Flow completion time (FCT) is from connect() to the receiver having the last byte. Flows belong
to the measured window by the time that the schedule gave them, so that the same flows count
under every policy. Quantiles are values that really occurred: p99 is the smallest FCT that
99 % of the flows did not exceed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.folder import Mix

Floats = npt.NDArray[np.float64]

CLASSES = ("small", "medium", "large", "all")
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def quantile(values: Floats, share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    if not len(values):
        return float("nan")
    rank = int(np.ceil(share * len(values) - 1e-9))
    return float(np.sort(values)[max(rank, 1) - 1])


def flows_in_window(
    flows: pd.DataFrame,
    window_ns: tuple[int, int],
    mixes: Iterable[Mix],
    rates_bps: Mapping[str, float],
) -> pd.DataFrame:
    """Flows scheduled in the window, with fct_ns (NaN: unfinished), size_class and slowdown.

    slowdown is the FCT over the time that the flow's bytes alone take at the rate of the slower
    of its two host links: 1 would be a flow that shared with nobody and paid for no header,
    no handshake and no round trip.
    """
    begin, end = window_ns
    chosen = flows[(flows["scheduled_ns"] >= begin) & (flows["scheduled_ns"] < end)].copy()
    size = chosen["size_byte"].to_numpy(dtype=float)
    mixes = list(mixes)
    small_max = chosen["mix"].map({mix.name: mix.small_max_byte for mix in mixes}).to_numpy(float)
    large_min = chosen["mix"].map({mix.name: mix.large_min_byte for mix in mixes}).to_numpy(float)
    chosen["size_class"] = np.where(
        size <= small_max, "small", np.where(size >= large_min, "large", "medium")
    )
    chosen["fct_ns"] = chosen["end_ns"].astype(float) - chosen["start_ns"].astype(float)
    sending, receiving = _host_rates(rates_bps)
    rate = np.minimum(
        chosen["src"].map(sending).to_numpy(float, na_value=np.inf),
        chosen["dst"].map(receiving).to_numpy(float, na_value=np.inf),
    )
    ideal_ns = size * 8e9 / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = chosen["fct_ns"].to_numpy(dtype=float) / ideal_ns
    chosen["slowdown"] = np.where(ideal_ns > 0, slowdown, np.nan)
    return chosen


def of_class(flows: pd.DataFrame, size_class: str) -> pd.DataFrame:
    return flows if size_class == "all" else flows[flows["size_class"] == size_class]


def flow_statistics(flows: pd.DataFrame) -> dict[str, float]:
    """Counts, and FCT statistics of the finished flows."""
    fct = flows["fct_ns"].to_numpy(dtype=float)
    finished = fct[~np.isnan(fct)]
    slowdown = flows["slowdown"].to_numpy(dtype=float)
    return {
        "count": len(fct),
        "unfinished": len(fct) - len(finished),
        "fct_mean_ns": mean(finished),
        **{f"fct_{name}_ns": quantile(finished, share) for name, share in QUANTILES.items()},
        "slowdown_mean": mean(slowdown[~np.isnan(slowdown)]),
    }


def iterations_in_window(
    iterations: pd.DataFrame, job: str, window_ns: tuple[int, int]
) -> pd.DataFrame:
    """Rows (worker and iteration) of a job that lie in the window whole, with duration_ns."""
    begin, end = window_ns
    chosen = iterations[
        (iterations["job"] == job)
        & (iterations["start_ns"] >= begin)
        & (iterations["end_ns"] <= end)
    ].copy()
    chosen["duration_ns"] = chosen["end_ns"].astype(float) - chosen["start_ns"].astype(float)
    return chosen


def training_statistics(iterations: pd.DataFrame, compute_ns: float) -> dict[str, float]:
    """Over the rows of `iterations_in_window`, of one run or of several put together.

    slowdown is the mean iteration over the time that its compute alone takes by the plan.
    """
    duration = iterations["duration_ns"].to_numpy(dtype=float)
    total = float(duration.sum())
    average = mean(duration)
    return {
        "count": len(duration),
        "iteration_mean_ns": average,
        "iteration_p99_ns": quantile(duration, 0.99),
        "slowdown": average / compute_ns if compute_ns > 0 else float("nan"),
        "wait_share": float(iterations["wait_ns"].sum()) / total if total else float("nan"),
    }


@dataclass(frozen=True)
class LinkUse:
    """What one port carried in the window, as shares of its rate."""

    by_class: Mapping[str, float]
    drops: int

    @property
    def total(self) -> float:
        return sum(self.by_class.values())


def link_use(
    links: pd.DataFrame, window_ns: tuple[int, int], rates_bps: Mapping[str, float]
) -> dict[str, LinkUse]:
    """Utilisation of every port by class over the window, from the cumulative counters.

    Counters are read a few times a second: between two readings they are taken to grow evenly.
    """
    shares: dict[str, dict[str, float]] = {}
    drops: dict[str, float] = {}
    ordered = links.sort_values(["link", "class", "time_ns"], kind="stable")
    columns = [ordered[name].to_numpy(dtype=float) for name in ("time_ns", "bytes", "drops")]
    # Slices of plain arrays: a thousand hosts have twelve thousand queues.
    for key, rows in ordered.groupby(["link", "class"], sort=True).indices.items():
        link, name = (str(part) for part in cast(tuple[object, object], key))
        if link not in rates_bps:
            continue
        times, sent, lost = (column[rows[0] : rows[-1] + 1] for column in columns)
        edges = np.clip(np.array(window_ns, dtype=float), times[0], times[-1])
        span = edges[1] - edges[0]
        carried = np.diff(np.interp(edges, times, sent))[0]
        share = carried * 8e9 / (span * rates_bps[link]) if span > 0 else float("nan")
        shares.setdefault(link, {})[name] = float(share)
        drops[link] = drops.get(link, 0.0) + float(np.diff(np.interp(edges, times, lost))[0])
    return {link: LinkUse(shares[link], round(drops[link])) for link in shares}


def tier_of(link: str) -> str:
    """ "leaf2->spine1" -> "leaf->spine": links between the same two kinds of node."""
    return re.sub(r"\d+", "", link)


def use_over_time(
    links: pd.DataFrame, link: str, rate_bps: float, most: int = 240
) -> tuple[Floats, dict[str, Floats]]:
    """(edges of the intervals in ns, share of the rate in each interval by class) of one port."""
    port = links[links["link"] == link]
    readings = np.unique(port["time_ns"].to_numpy(dtype=float))
    if len(readings) < 2:
        return np.zeros(0), {}
    edges = readings if len(readings) <= most else np.linspace(readings[0], readings[-1], most)
    shares: dict[str, Floats] = {}
    for name, counters in port.groupby("class", sort=True):
        ordered = counters.sort_values("time_ns")
        carried = np.interp(
            edges, ordered["time_ns"].to_numpy(dtype=float), ordered["bytes"].to_numpy(dtype=float)
        )
        shares[str(name)] = np.diff(carried) * 8e9 / (np.diff(edges) * rate_bps)
    return edges, shares


def _host_rates(rates_bps: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """The rate at which each node can send and receive: its fastest link out and in."""
    sending: dict[str, float] = {}
    receiving: dict[str, float] = {}
    for link, rate in rates_bps.items():
        source, _, target = link.partition("->")
        sending[source] = max(rate, sending.get(source, 0.0))
        receiving[target] = max(rate, receiving.get(target, 0.0))
    return sending, receiving
