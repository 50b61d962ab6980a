"""One rack: every host on one top-of-rack switch."""

from topologies import Cable, Kind, Link, Topology, host_names


def build(hosts: int, cable: Cable) -> Topology:
    names = host_names(hosts)
    return Topology(
        hosts=names,
        switches=("s1",),
        links=tuple(Link(name, "s1", cable) for name in names),
    )


KIND = Kind(build)
