"""The completion time of a flow that has the network to itself.

A round trip on the way between its hosts, for the handshake and for the last byte, and its bytes at
the rate of the slower of the two hosts' links: no header, no slow start, no queue.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.metrics import Floats


def ideal_fct_ns(
    flows: pd.DataFrame, rates_bps: Mapping[str, float], delays_ns: Mapping[str, float]
) -> Floats:
    """Of each flow; rates and one-way delays are those of links, "h1->s1"."""
    sending, receiving = host_rates(rates_bps)
    rate = np.minimum(
        flows["src"].map(sending).to_numpy(float, na_value=np.inf),
        flows["dst"].map(receiving).to_numpy(float, na_value=np.inf),
    )
    return flows["size_byte"].to_numpy(float) * 8e9 / rate + round_trip_ns(flows, delays_ns)


def host_rates(rates_bps: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """The rate at which each node can send and receive: its fastest link out and in."""
    sending: dict[str, float] = {}
    receiving: dict[str, float] = {}
    for link, rate in rates_bps.items():
        source, _, target = link.partition("->")
        sending[source] = max(rate, sending.get(source, 0.0))
        receiving[target] = max(rate, receiving.get(target, 0.0))
    return sending, receiving


def round_trip_ns(flows: pd.DataFrame, delays_ns: Mapping[str, float]) -> Floats:
    """There and back on the shortest way. A host has one link; a pair that has no way counts 0."""
    ends = {link: link.partition("->")[::2] for link in delays_ns}
    links = Counter(near for near, _ in ends.values())
    switches = [node for node, count in links.items() if count > 1]
    number = {node: at for at, node in enumerate(switches)}
    between = np.full((len(switches), len(switches)), np.inf)
    np.fill_diagonal(between, 0.0)
    up: dict[str, tuple[int, float]] = {}
    for link, (near, far) in ends.items():
        if near in number and far in number:
            between[number[near], number[far]] = delays_ns[link]
        elif far in number:
            up[near] = number[far], delays_ns[link]
    for through in range(len(switches)):
        around = between[:, through, None] + between[None, through, :]
        between = np.minimum(between, around)
    nowhere = (-1, 0.0)
    found = {}
    for src, dst in set(zip(flows["src"], flows["dst"], strict=True)):
        (first, out_ns), (last, in_ns) = up.get(src, nowhere), up.get(dst, nowhere)
        if min(first, last) >= 0 and np.isfinite(between[first, last]):
            found[src, dst] = 2 * (out_ns + float(between[first, last]) + in_ns)
    pairs = zip(flows["src"], flows["dst"], strict=True)
    return np.array([found.get(pair, 0.0) for pair in pairs])
