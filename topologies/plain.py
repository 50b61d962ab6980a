"""A graph as plain data and back, for a process that has to know its links and their rates."""

from typing import Any

from topologies import Cable, Link, Topology

Plain = dict[str, Any]


def as_plain(graph: Topology) -> Plain:
    links = [(link.a, link.b, link.cable.rate_bps) for link in graph.links]
    return {"hosts": graph.hosts, "switches": graph.switches, "links": links}


def from_plain(graph: Plain) -> Topology:
    links = tuple(Link(a, b, Cable(rate_bps, 0, 0)) for a, b, rate_bps in graph["links"])
    return Topology(tuple(graph["hosts"]), tuple(graph["switches"]), links)
