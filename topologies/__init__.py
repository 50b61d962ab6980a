"""Where things run: pure graphs of hosts, switches and links. No I/O.

A topology is one file in this folder with a `build(hosts, cable)` function; its name in
experiment files is the file's name with dashes.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Cable:
    """What every link of a topology is made of."""

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
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]


Build = Callable[[int, Cable], Topology]


@cache
def available() -> dict[str, Build]:
    """Every topology in this folder by the name used in experiment files."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {
        name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}").build
        for name in names
    }


def host_names(count: int) -> tuple[str, ...]:
    return tuple(f"h{number}" for number in range(1, count + 1))
