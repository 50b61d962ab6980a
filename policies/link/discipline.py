"""A link policy at one port, as data: classes of packets, and how they share the line.

A class is sure of its floor. What floors leave goes to the classes by level, the lower first; those
of one level share it by weight. `faults` says what is wrong with a discipline, before any engine
has to find out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from basics.bands import BAND_TOS
from basics.units import format_size
from policies.link.port import Port, ServerPort

LEVELS = 8  # of htb
MOST_WEIGHT = 100.0  # the largest over the smallest
NEVER_BYTE = 10**12  # beyond all flows
UNMARKED = "middle"  # the band of packets that nobody has marked
ROUNDING = 1e-9  # shares like 0.6, 0.3 and 0.1 add up to 1 for people, not for processors


@dataclass(frozen=True)
class Demotion:
    """After so many bytes of a flow, counted from its first, the rest goes to another class."""

    after_byte: int
    to: str


@dataclass(frozen=True)
class ServiceClass:
    """Packets that are served alike: which ones, when, and where they wait meanwhile."""

    name: str
    level: int = 0
    floor: float = 0.0  # share of the line that it is sure of; 0: next to nothing
    weight: float = 1.0  # among the classes of its level
    # Which packets: marked with a band, sent by a server, sent to one, or all that no class names.
    bands: tuple[str, ...] = ()
    servers: tuple[ServerPort, ...] = ()
    pushed_to: tuple[ServerPort, ...] = ()
    rest: bool = False
    queue_per_flow: bool = False
    limit_packets: int | None = None  # None: as long as the port's queues are
    mark_ns: int | None = None  # a packet that has waited longer is marked; None: as at the port
    demotion: Demotion | None = None

    @property
    def by_server(self) -> bool:
        """Whether packets are told apart by their server here."""
        return bool(self.servers or self.pushed_to)

    def limit_at(self, port: Port) -> int:
        return port.queue_packets if self.limit_packets is None else self.limit_packets

    def mark_ns_at(self, port: Port) -> int:
        return port.mark_ns if self.mark_ns is None else self.mark_ns


@dataclass(frozen=True)
class Discipline:
    """What a policy wants at a port.

    The mechanism matters to kernels only: `prio` is the qdisc of that name, which knows levels and
    nothing else; `htb` does all of it. htb wants every class to own some rate: `least_bps` is what
    one without a floor gets.
    """

    classes: tuple[ServiceClass, ...]
    mechanism: Literal["htb", "prio"] = "htb"
    least_bps: int = 8_000  # one full frame in 1.5 s
    # Bare acknowledgements wait with the rest, whichever server the others of their flow name.
    acks_with_rest: bool = False
    # Who marks flows that are demoted: their senders, or the kernel of their host, and then for
    # every program that there is.
    kernel_marks: bool = False

    @property
    def band_classes(self) -> tuple[ServiceClass, ...]:
        """Those that jobs and flows can be put into; the others are for servers alone."""
        return tuple(one for one in self.classes if one.bands or one.rest)

    def demotions_from(self, name: str) -> tuple[Demotion, ...]:
        """What a flow that begins in a class goes through, if it is long enough for all of it."""
        demotion = {one.name: one.demotion for one in self.classes}[name]
        return () if demotion is None else (demotion, *self.demotions_from(demotion.to))

    def class_of(self, server: ServerPort) -> ServiceClass | None:
        """Where what a server sends waits, if it is told apart at all."""
        return next((one for one in self.classes if server in one.servers), None)

    def class_of_pushes(self, server: ServerPort) -> ServiceClass | None:
        """Where what workers send to a server waits, if it is told apart at all."""
        return next((one for one in self.classes if server in one.pushed_to), None)

    def same_queues(self, other: "Discipline") -> bool:
        """Whether the two differ in nothing but where each server's packets wait."""
        return _apart_from_places(self) == _apart_from_places(other)


def _apart_from_places(discipline: Discipline) -> tuple[Discipline, *tuple[set[ServerPort], ...]]:
    """A discipline without its servers, and those."""
    empty = tuple(replace(one, servers=(), pushed_to=()) for one in discipline.classes)
    servers = {server for one in discipline.classes for server in one.servers}
    pushed_to = {server for one in discipline.classes for server in one.pushed_to}
    return replace(discipline, classes=empty), servers, pushed_to


def one_queue() -> Discipline:
    """Everybody waits in the same queue."""
    return Discipline((ServiceClass("all", rest=True),))


def three_bands(floors: Mapping[str, float] | None = None) -> Discipline:
    """A queue for each band, the higher served first, each sure of its floor if it has one."""
    floors = floors or {}
    return Discipline(
        tuple(
            ServiceClass(band, level, floors.get(band, 0.0), bands=(band,), rest=band == UNMARKED)
            for level, band in enumerate(BAND_TOS)
        )
    )


# ---- what can be wrong with one -----------------------------------------------------------


def faults(discipline: Discipline) -> Iterator[str]:
    """Everything that no engine should be asked to do, each in words for who wrote the policy."""
    classes = discipline.classes
    for one in classes:
        yield from (f"class {one.name}: {fault}" for fault in _faults_alone(one))
        if one.demotion:
            yield from (f"class {one.name}: {fault}" for fault in _bad_demotion(one, classes))
    yield from _shared_names(classes)
    rest = [one.name for one in classes if one.rest]
    if len(rest) != 1:
        found = f"classes {', '.join(rest)} take" if rest else "no class takes"
        yield f"{found} the rest, what no class names; exactly one has to"
    total = sum(one.floor for one in classes)
    if total > 1 + ROUNDING:
        yield f"floors add up to {total:g} of the line; 1 is the most"
    weights = [one.weight for one in classes if one.weight > 0]
    if weights and max(weights) > MOST_WEIGHT * min(weights):
        yield f"one weight is more than {MOST_WEIGHT:g} times another"
    if discipline.least_bps < 1:
        yield f"least_bps is {discipline.least_bps}; htb needs 1 or more"
    if discipline.mechanism == "prio":
        yield from _beyond_prio(classes)


def _faults_alone(one: ServiceClass) -> Iterator[str]:
    if not 0 <= one.level < LEVELS:
        yield f"level {one.level}; there are {LEVELS}, from 0"
    if not 0 <= one.floor <= 1:
        yield f"a floor of {one.floor:g}; it is a share of the line, 0 to 1"
    if not one.weight > 0:
        yield f"a weight of {one.weight:g}; it must be above 0"
    if not (one.bands or one.by_server or one.rest):
        yield "no packets: give it bands or servers, or the rest"
    if one.limit_packets is not None and one.limit_packets < 1:
        yield f"a queue of {one.limit_packets} packets; it holds 1 or more"
    if one.mark_ns is not None and one.mark_ns < 0:
        yield f"marks after {one.mark_ns} ns; that cannot be"
    for band in one.bands:
        if band not in BAND_TOS:
            yield f"the unknown band {band}; there are {', '.join(BAND_TOS)}"


def _bad_demotion(one: ServiceClass, classes: tuple[ServiceClass, ...]) -> Iterator[str]:
    """Senders mark what they send: so both classes have a band, and the way is down only."""
    assert one.demotion is not None
    after_byte, to = one.demotion.after_byte, one.demotion.to
    target = next((other for other in classes if other.name == to), None)
    if after_byte < 1:
        yield f"demotes after {after_byte} bytes; it must be 1 or more"
    if target is None:
        yield f"demotes to {to}, which is no class"
        return
    if not (one.bands and target.bands):
        yield f"demotes to {to}; both need a band that packets can be marked with"
    if target.level <= one.level:
        yield f"demotes to {to}, which is not served later"
    if target.demotion and target.demotion.after_byte <= after_byte:
        own = format_size(target.demotion.after_byte)
        yield (
            f"demotes to {to} after {format_size(after_byte)}, and that demotes after {own} "
            "already; a second threshold lies above the first"
        )


def _shared_names(classes: tuple[ServiceClass, ...]) -> Iterator[str]:
    for what, found in (
        ("class", Counter(one.name for one in classes)),
        ("band", Counter(band for one in classes for band in one.bands)),
        ("server of", Counter(server.job for one in classes for server in one.servers)),
        ("push of", Counter(server.job for one in classes for server in one.pushed_to)),
    ):
        for name, count in found.items():
            if count > 1:
                yield f"the {what} {name} is there {count} times"
    choosable = [one for one in classes if one.bands or one.rest]
    for one in choosable if len(choosable) > 1 else ():
        if one.name not in one.bands:
            yield f"class {one.name}: name it after a band that it takes; files choose by name"


def _beyond_prio(classes: tuple[ServiceClass, ...]) -> Iterator[str]:
    levels = [one.level for one in classes]
    if levels != sorted(set(levels)):
        yield "the prio qdisc has one class a level, the first listed first"
    if any(one.floor for one in classes):
        yield "the prio qdisc knows no floors; take htb"
