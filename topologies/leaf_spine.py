"""Racks joined by spines: every leaf switch has a link to every spine switch.

Hosts fill the leaves in order: of 8 hosts on 2 leaves, h1 to h4 are on leaf1. A leaf's uplinks
together carry what its hosts can send, divided by the oversubscription; each spine takes an equal
share of that.
"""

from dataclasses import replace

from basics.options import Misfit, Option
from topologies import Cable, Kind, Link, Topology, host_names, numbered


def build(
    hosts: int, cable: Cable, leaves: int, spines: int, oversubscription: float = 1
) -> Topology:
    if hosts % leaves:
        raise Misfit("hosts", f"found {hosts}; it must be a multiple of leaves, {leaves}")
    names, leaf_names, spine_names = (
        host_names(hosts),
        numbered("leaf", leaves),
        numbered("spine", spines),
    )
    on_each = hosts // leaves
    uplink_bps = round(on_each * cable.rate_bps / (oversubscription * spines))
    if uplink_bps == 0:
        raise Misfit("oversubscription", f"found {oversubscription:g}; it leaves uplinks no rate")
    uplink = replace(cable, rate_bps=uplink_bps)
    down = [Link(name, leaf_names[index // on_each], cable) for index, name in enumerate(names)]
    up = [Link(leaf, spine, uplink) for leaf in leaf_names for spine in spine_names]
    return Topology(names, leaf_names + spine_names, tuple(down + up))


KIND = Kind(
    build,
    {
        "leaves": Option("switches that hosts are plugged into, equally many each", 1, 256),
        "spines": Option("switches above the leaves: as many ways between two racks", 1, 64),
        "oversubscription": Option(
            "what a leaf's hosts can send over what its uplinks carry", 1, 100, 1, step=None
        ),
    },
)
