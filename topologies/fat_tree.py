"""A fat tree of equal switches with k ports each: pods of edge and aggregation switches, and cores.

k pods have k/2 edge and k/2 aggregation switches each, every edge switch has room for k/2 hosts,
and (k/2)^2 cores join the pods: k^3/4 hosts, and as many ways between two pods as there are cores.
Fewer hosts are spread evenly over the edge switches, in order. Links between switches have the
hosts' rate divided by the oversubscription, so traffic that leaves its edge switch is squeezed
there once, and no further above.
"""

from dataclasses import replace

from basics.options import Misfit, Option
from topologies import Cable, Kind, Link, Topology, host_names, numbered


def full(k: int, **_options: float) -> int:
    return k**3 // 4


def build(hosts: int, cable: Cable, k: int, oversubscription: float = 1) -> Topology:
    if hosts > full(k):
        raise Misfit("hosts", f"found {hosts}; a fat tree of k = {k} has room for {full(k)}")
    uplink_bps = round(cable.rate_bps / oversubscription)
    if uplink_bps == 0:
        raise Misfit("oversubscription", f"found {oversubscription:g}; it leaves uplinks no rate")
    half = k // 2
    names, edges, aggregations, cores = (
        host_names(hosts),
        numbered("edge", k * half),
        numbered("agg", k * half),
        numbered("core", half * half),
    )
    uplink = replace(cable, rate_bps=uplink_bps)
    links = [
        Link(name, edges[index * len(edges) // hosts], cable) for index, name in enumerate(names)
    ]
    for pod in range(k):
        own = aggregations[pod * half : (pod + 1) * half]
        links += [
            Link(edge, aggregation, uplink)
            for edge in edges[pod * half : (pod + 1) * half]
            for aggregation in own
        ]
        links += [
            Link(aggregation, core, uplink)
            for index, aggregation in enumerate(own)
            for core in cores[index * half : (index + 1) * half]
        ]
    return Topology(names, edges + aggregations + cores, tuple(links))


KIND = Kind(
    build,
    {
        "k": Option("ports of a switch, and pods", 2, 32, step=2),
        "oversubscription": Option(
            "what an edge switch's hosts can send over what its uplinks carry", 1, 100, 1, step=None
        ),
    },
    full,
)
