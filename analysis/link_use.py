"""What links carried, from the counters of their queues."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from analysis.folder import Plan, SealedRun
from analysis.metrics import Floats


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


def by_link(runs: list[SealedRun], plan: Plan) -> dict[str, dict[str, Any]]:
    """Utilisation of every port over the window, the mean over seeds; drops are summed."""
    uses = [link_use(run.table("links"), plan.window_ns, plan.rates_bps) for run in runs]
    ports: dict[str, dict[str, Any]] = {}
    for link in plan.rates_bps:
        found = [use[link] for use in uses if link in use]
        if not found:
            continue
        names = sorted({name for use in found for name in use.by_class})
        ports[link] = {
            "utilisation": sum(use.total for use in found) / len(found),
            "by_class": {
                name: sum(use.by_class.get(name, 0.0) for use in found) / len(found)
                for name in names
            },
            "drops": sum(use.drops for use in found),
        }
    return ports


def places(links: Iterable[str]) -> dict[str, str]:
    """Of each link: whether it is a host's cable, a rack's uplink, or above that."""
    ends = {link: tuple(link.split("->")) for link in links}
    racks = {b for pair in ends.values() for a, b in (pair, pair[::-1]) if _is_host(a)}
    return {
        link: "hosts" if any(map(_is_host, pair)) else "core" if racks.isdisjoint(pair) else "racks"
        for link, pair in ends.items()
    }


def _is_host(node: str) -> bool:
    return re.fullmatch(r"h\d+", node) is not None


def rows(ports: Mapping[str, Mapping[str, Any]], plan: Plan) -> pd.DataFrame:
    """The ports as a table, for the metrics of links."""
    place = places(ports)
    first_ns, last_ns = plan.window_ns
    window_byte = {link: bps * (last_ns - first_ns) / 8e9 for link, bps in plan.rates_bps.items()}
    found = [
        (link, tier_of(link), place[link], used, used * window_byte[link], port["drops"])
        for link, port in ports.items()
        for used in [port["utilisation"]]
    ]
    columns = ["link", "tier", "place", "utilisation", "byte", "drops"]
    return pd.DataFrame(found, columns=columns)


def by_band(ports: Mapping[str, Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
    """What each queue class has of every port."""
    names = sorted({name for port in ports.values() for name in port["by_class"]})
    return {
        name: pd.DataFrame({"share": [p["by_class"].get(name) or 0.0 for p in ports.values()]})
        for name in names
    }


def tiers(links: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Links between the same two kinds of node, where there are several kinds."""
    found = {str(tier): part for tier, part in links.groupby("tier", sort=False)}
    return found if len(found) > 2 else {}  # two are there and back: one rack


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
