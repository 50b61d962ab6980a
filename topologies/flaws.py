"""What every graph has to be, whoever wrote it: said at the door, not by an engine half-way."""

import re
from collections import Counter

from topologies import Topology, host_names

# What can be part of a folder's, a process's and a device's name.
NAME = re.compile("[A-Za-z][A-Za-z0-9._-]{0,31}")


def flaw(graph: Topology, hosts: int) -> str | None:
    """The first thing that keeps a graph from being run, or None."""
    if graph.hosts != host_names(hosts):
        return f"its hosts must be called h1 to h{hosts}, in this order"
    for name, count in Counter((*graph.hosts, *graph.switches)).items():
        if not NAME.fullmatch(name):
            return f"{name[:40]!r} cannot be the name of a switch (letters and digits, 32 at most)"
        if count > 1:
            return f"{name} is there twice"
    return _cabling(graph) or _ways(graph)


def _cabling(graph: Topology) -> str | None:
    hosts, switches = set(graph.hosts), set(graph.switches)
    seen: set[frozenset[str]] = set()
    for link in graph.links:
        ends = frozenset((link.a, link.b))
        for name in (link.a, link.b):
            if name not in hosts and name not in switches:
                return f"a link ends at {name[:40]!r}, which is neither host nor switch"
        if link.b in hosts or link.a == link.b:
            return f"the link {link.a}->{link.b} must lead to a switch: the host's end comes first"
        if ends in seen:
            return f"{link.a} and {link.b} have two links; make one of twice the rate"
        seen.add(ends)
        cable = link.cable
        if not (cable.rate_bps >= 1 and cable.delay_ns >= 0 and cable.queue_packets >= 1):
            return f"the link {link.a}->{link.b} has no rate, no queue or a negative delay"
    links = Counter(link.a for link in graph.links if link.a in hosts)
    for host in graph.hosts:
        if links[host] != 1:
            return f"{host} has {links[host]} links; a host has one"
    return None


def _ways(graph: Topology) -> str | None:
    """Whether there is a way from the first host to everybody."""
    beside: dict[str, list[str]] = {name: [] for name in (*graph.hosts, *graph.switches)}
    for link in graph.links:
        beside[link.a].append(link.b)
        beside[link.b].append(link.a)
    reached, waiting = {graph.hosts[0]}, [graph.hosts[0]]
    while waiting:
        new = [name for name in beside[waiting.pop()] if name not in reached]
        reached.update(new)
        waiting += new
    for name in beside:
        if name not in reached:
            return f"there is no way from {graph.hosts[0]} to {name}"
    return None
