"""Where things run: pure graphs of hosts, switches and links. No I/O.

A topology is one file in this folder that ends with `KIND = Kind(...)`; its name in experiment
files is the file's name with dashes. What it may be told besides hosts and cable it declares as
options, and experiment files then have those keys.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from basics.options import Options, keywords


@dataclass(frozen=True)
class Cable:
    """What a link is made of."""

    rate_bps: int
    delay_ns: int
    queue_packets: int


@dataclass(frozen=True)
class Link:
    """A full-duplex cable between two nodes: `a` is the end nearer to the hosts."""

    a: str
    b: str
    cable: Cable


@dataclass(frozen=True)
class Topology:
    """Every host has one link; between switches there may be several equally short ways."""

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]

    @property
    def routed(self) -> bool:
        """Whether switches have to choose ways; on a single one there are none to choose."""
        return len(self.switches) > 1

    @property
    def racks(self) -> tuple[tuple[str, ...], ...]:
        """The hosts that share a switch, in the order of the switches."""
        switch_of = {link.a: link.b for link in self.links}
        found: dict[str, list[str]] = {switch: [] for switch in self.switches}
        for host in self.hosts:
            found[switch_of[host]].append(host)
        return tuple(tuple(hosts) for hosts in found.values() if hosts)

    @property
    def link_names(self) -> tuple[str, ...]:
        """Both directions of every link, "h1->s1" then "s1->h1", in the order of the links."""
        ends = [(link.a, link.b) for link in self.links]
        return tuple(f"{near}->{far}" for a, b in ends for near, far in ((a, b), (b, a)))


Build = Callable[..., Topology]  # (hosts, cable, **options); may raise Misfit


@dataclass(frozen=True)
class Kind:
    """A kind of topology: called with hosts, cable and options, it is the graph."""

    build: Build
    options: Options = field(default_factory=dict)
    # How many hosts there are when the file does not say; None: it has to.
    full: Callable[..., int] | None = None

    def __call__(self, hosts: int, cable: Cable, **chosen: float) -> Topology:
        return self.build(hosts, cable, **keywords(self.options, chosen))


@cache
def available() -> dict[str, Kind]:
    """Every topology in this folder by the name used in experiment files."""
    modules = [
        importlib.import_module(f"{__name__}.{module.name}")
        for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    ]
    return {
        module.__name__.rpartition(".")[2].replace("_", "-"): module.KIND
        for module in modules
        if hasattr(module, "KIND")
    }


def host_names(count: int) -> tuple[str, ...]:
    return tuple(f"h{number}" for number in range(1, count + 1))


def numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{number}" for number in range(1, count + 1))
