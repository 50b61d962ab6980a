"""The topology of an experiment file: keys that all kinds have, and the options of its own kind."""

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

import topologies
from testbed import units
from testbed.specfile import At
from testbed.specparts import Spec, above_zero, integer, known
from testbed.units import shown

MOST_HOSTS = 4096

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


class TopologySpec(Spec):
    """Keys besides those that every topology has are its kind's own options."""

    what: ClassVar[str] = "a topology"

    kind: Annotated[str, BeforeValidator(_known_kind)]
    hosts: Annotated[int, BeforeValidator(integer(2, MOST_HOSTS))]
    options: dict[str, int | float]
    rate_bps: Annotated[int, BeforeValidator(above_zero(units.rate_bps))] = Field(alias="rate")
    delay: Annotated[Delay, BeforeValidator(_delay)]
    queue_packets: Annotated[int, BeforeValidator(above_zero(units.packets))] = Field(alias="queue")

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        keys = super().keys(data)
        del keys["options"]
        kind = _kind(data)
        if kind is None:
            return keys
        keys["hosts"] = kind.full is None
        return keys | {name: option.default is None for name, option in kind.options.items()}

    @classmethod
    def gathered(cls, data: dict[Any, Any]) -> dict[Any, Any]:
        kind = _kind(data)
        if kind is None:
            return data
        options = {}
        for name, option in kind.options.items():
            options[name] = data.get(name, option.default)
            if not option.allows(options[name]):
                raise At([name], f"found {shown(options[name])}; it must be {option.allowed}")
        hosts = {} if kind.full is None else {"hosts": kind.full(**options)}
        rest = {key: value for key, value in data.items() if key not in options}
        return {**hosts, **rest, "options": options}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            _ = self.graph
        except topologies.Misfit as error:
            raise At([error.key], str(error)) from None
        return self

    @property
    def graph(self) -> topologies.Topology:
        cable = topologies.Cable(self.rate_bps, self.delay.ns, self.queue_packets)
        return topologies.available()[self.kind](self.hosts, cable, **self.options)

    def plain(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "hosts": self.hosts,
            **self.options,
            "rate": units.format_rate(self.rate_bps),
            "delay": str(self.delay),
            "queue": units.format_packets(self.queue_packets),
        }


def _kind(data: dict[Any, Any]) -> topologies.Kind | None:
    """What the file names, if it names any."""
    if data.get("kind") is None:
        return None
    try:
        return topologies.available()[_known_kind(data["kind"])]
    except ValueError as error:
        raise At(["kind"], str(error)) from None
