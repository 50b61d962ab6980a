"""Where things run: pure graphs of hosts, switches and links. No I/O.

A topology is one file in this folder that ends with `KIND = Kind(...)`; its name in experiment
files is the file's name with dashes. What it may be told besides hosts and cable it declares as
options, and experiment files then have those keys.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache


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
    def link_names(self) -> tuple[str, ...]:
        """Both directions of every link, "h1->s1" then "s1->h1", in the order of the links."""
        ends = [(link.a, link.b) for link in self.links]
        return tuple(f"{near}->{far}" for a, b in ends for near, far in ((a, b), (b, a)))


@dataclass(frozen=True)
class Option:
    """A number that a topology can be told in experiment files, under a key of its own."""

    meaning: str
    low: int
    high: int
    default: float | None = None  # None: the file has to say
    step: int | None = 1  # None: any number, 2.5 too

    @property
    def allowed(self) -> str:
        kinds = {None: "a number", 1: "a whole number", 2: "an even number"}
        default = "" if self.default is None else f"; {self.default:g} if left out"
        return f"{kinds[self.step]}, {self.low} to {self.high}{default}"

    def allows(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        stepped = self.step is None or (isinstance(value, int) and value % self.step == 0)
        return stepped and self.low <= value <= self.high


class Misfit(ValueError):
    """Hosts and options that are fine alone and do not go together; `key` is the one to change."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


Build = Callable[..., Topology]  # (hosts, cable, **options); may raise Misfit


@dataclass(frozen=True)
class Kind:
    """A kind of topology: called with hosts, cable and options, it is the graph."""

    build: Build
    options: Mapping[str, Option] = field(default_factory=dict)
    # How many hosts there are when the file does not say; None: it has to.
    full: Callable[..., int] | None = None

    def __call__(self, hosts: int, cable: Cable, **options: float) -> Topology:
        defaults = {
            name: option.default
            for name, option in self.options.items()
            if option.default is not None
        }
        return self.build(hosts, cable, **{**defaults, **options})


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
