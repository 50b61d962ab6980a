"""The topology of an experiment file: keys that all kinds have, and the options of its own kind."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

import topologies
from basics import options, units
from basics.units import shown
from testbed.spec.mistakes import At
from testbed.spec.values import Spec, above_zero, integer, known
from topologies.flaws import flaw

MOST_HOSTS = 8192  # a fat tree of k = 32
MOST_CORES = 4096
FASTEST_BPS = 10**15  # beyond, a packet is shorter than the clocks can tell

_known_kind = known("topology", lambda: list(topologies.available()))


class Delay(BaseModel):
    """One-way delay of a link. Not strict ("about 10 us"): as near as this machine can."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ns: int
    strict: bool

    def __str__(self) -> str:
        return ("" if self.strict else "about ") + units.format_time(self.ns)


def _delay(value: object) -> object:
    if isinstance(value, Delay):
        return value
    about = isinstance(value, str) and re.match(r"\s*about\s+", value)
    text = value[about.end() :] if about and isinstance(value, str) else value
    return Delay(ns=units.time_ns(text), strict=not about)


def _rate(value: object) -> int:
    rate_bps = above_zero(units.rate_bps)(value)
    if rate_bps > FASTEST_BPS:
        raise ValueError(f"found {shown(value)}; {units.format_rate(FASTEST_BPS)} are the most")
    return rate_bps


class TopologySpec(Spec):
    """Keys besides those that every topology has are its kind's own options."""

    what: ClassVar[str] = "a topology"

    kind: Annotated[str, BeforeValidator(_known_kind)]
    hosts: Annotated[int, BeforeValidator(integer(2, MOST_HOSTS))]
    # That a host's native tasks compute on together; None: one each.
    cores: Annotated[int, BeforeValidator(integer(1, MOST_CORES))] | None = None
    options: dict[str, int | float]
    rate_bps: Annotated[int, BeforeValidator(_rate)] = Field(alias="rate")
    delay: Annotated[Delay, BeforeValidator(_delay)]
    queue_packets: Annotated[int, BeforeValidator(above_zero(units.packets))] = Field(alias="queue")

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        keys = super().keys(data)
        del keys["options"]
        kind = _kind(data)
        if kind is None:  # what else it needs and may have, only its kind knows
            return {**dict.fromkeys(data, False), **keys, "hosts": False}
        keys["hosts"] = kind.full is None
        return keys | {name: option.default is None for name, option in kind.options.items()}

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        kind = _kind(data)
        for name, why in options.misfits(kind.options, data) if kind is not None else ():
            yield At([name], why)

    @classmethod
    def gathered(cls, data: dict[Any, Any]) -> dict[Any, Any]:
        kind = _kind(data)
        known = super().keys(data)
        rest = {key: value for key, value in data.items() if key in known and key != "options"}
        if kind is None:
            return {**rest, "options": {}}
        values = options.readable(kind.options, data)
        hosts = {}
        if kind.full is not None and values.keys() == kind.options.keys():  # else see `misfits`
            hosts["hosts"] = kind.full(**options.keywords(kind.options, values))
        return {**hosts, **rest, "options": values}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            graph = self.graph
        except options.Misfit as error:
            raise At([error.key], str(error)) from None
        wrong = flaw(graph, self.hosts)
        if wrong is not None:
            raise At(["kind"], f"found {self.kind}, whose graph cannot be run: {wrong}")
        return self

    @property
    def graph(self) -> topologies.Topology:
        cable = topologies.Cable(self.rate_bps, self.delay.ns, self.queue_packets)
        return topologies.available()[self.kind](self.hosts, cable, **self.options)

    def plain(self) -> dict[str, Any]:
        cores = {} if self.cores is None else {"cores": self.cores}
        return {
            "kind": self.kind,
            "hosts": self.hosts,
            **cores,
            **options.written(topologies.available()[self.kind].options, self.options),
            "rate": units.format_rate(self.rate_bps),
            "delay": str(self.delay),
            "queue": units.format_packets(self.queue_packets),
        }


def _kind(data: dict[Any, Any]) -> topologies.Kind | None:
    """What the file names, if that is known."""
    name = data.get("kind")
    return topologies.available().get(name) if isinstance(name, str) else None
