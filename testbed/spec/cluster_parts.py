"""What hosts of a cluster have, what tasks need, and what it costs to suspend them."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from basics import resources, units
from basics.bands import BAND_TOS
from basics.resources import RESOURCES
from basics.units import shown
from testbed.spec import spans
from testbed.spec.mistakes import At
from testbed.spec.spans import Span, span
from testbed.spec.values import Spec, Text, Time, one_of


def _amount(name: str) -> BeforeValidator:
    read = RESOURCES[resources.NAMES.index(name)].read
    return BeforeValidator(read)


def _amounts(name: str, example: str) -> BeforeValidator:
    return BeforeValidator(span(RESOURCES[resources.NAMES.index(name)].read, example))


class HostSpec(Spec):
    """What every host has; its network is its cable."""

    what: ClassVar[str] = "what a host has"

    gpu: Annotated[int, _amount("gpu")] = 0
    cpu: Annotated[int, _amount("cpu")] = 0
    memory: Annotated[int, _amount("memory")] = 0
    disk: Annotated[int, _amount("disk")] = 0

    def plain(self) -> dict[str, Any]:
        return {r.name: r.write(getattr(self, r.name)) for r in RESOURCES if r.name in self._names}

    @property
    def _names(self) -> set[str]:
        return {name for name in type(self).model_fields if getattr(self, name)}


class DemandSpec(Spec):
    """What a task of a drawn job needs."""

    what: ClassVar[str] = "a demand"

    gpu: Annotated[Span, _amounts("gpu", "1 to 4")] = (0, 0)
    cpu: Annotated[Span, _amounts("cpu", "1 to 4")] = (0, 0)
    memory: Annotated[Span, _amounts("memory", "1 GB to 8 GB")] = (0, 0)
    disk: Annotated[Span, _amounts("disk", "1 GB to 8 GB")] = (0, 0)
    network: Annotated[Span, _amounts("network", "10 Mbit/s to 1 Gbit/s")] = (0, 0)

    def plain(self) -> dict[str, Any]:
        by_name = {r.name: (getattr(self, r.name), r.write) for r in RESOURCES}
        return {name: spans.written(*found) for name, found in by_name.items() if found[0][1]}


def times(of: str, what: str) -> Callable[[object], float]:
    """So many times something: `2 x alone`."""

    def read(value: object) -> float:
        match = (
            re.fullmatch(rf"\s*([0-9]{{1,6}}(?:\.[0-9]{{1,6}})?) x {of}\s*", value)
            if isinstance(value, str)
            else None
        )
        if match is None or not float(match[1]):
            raise ValueError(f"found {shown(value)}; write {what}")
        return float(match[1])

    return read


class CheckpointSpec(Spec):
    """What a suspension and a resumption cost; a host is held meanwhile.

    With a size, a host that a training job was not on gets that much through the network first; a
    job of torch's sends the state that it has, whatever a file says.
    """

    what: ClassVar[str] = "a checkpoint"

    suspend_ns: Time = Field(alias="suspend", default=0)
    resume_ns: Time = Field(alias="resume", default=0)
    size: Annotated[float, BeforeValidator(times("model", "a size like 3 x model"))] | None = None
    band: Annotated[str, BeforeValidator(one_of("band", *BAND_TOS))] | None = None

    def byte(self, model_byte: int) -> int:
        return 0 if self.size is None else units.multiplied(model_byte, self.size)

    def band_in(self, bands: Sequence[str], training: str) -> str:
        """The band of its bytes; that of training where a policy does not have it."""
        return training if self.band is None or self.band not in bands else self.band

    def plain(self) -> dict[str, Any]:
        times = {"suspend": self.suspend_ns, "resume": self.resume_ns}
        found: dict[str, Any] = {name: units.format_time(ns) for name, ns in times.items()}
        if self.size is not None:
            found["size"] = f"{self.size:.12g} x model"
        return found if self.band is None else {**found, "band": self.band}


class FailureSpec(Spec):
    """A daemon that dies: its host is lost from then on, and its jobs go back to the queue."""

    what: ClassVar[str] = "a failure"

    host: Text
    at_ns: Time = Field(alias="at")

    def plain(self) -> dict[str, Any]:
        return {"host": self.host, "at": units.format_time(self.at_ns)}


def impossible(
    failures: Sequence[FailureSpec], hosts: Sequence[str], duration_ns: int | None
) -> Iterator[At]:
    """What cannot happen on these hosts and in this time."""
    before: set[str] = set()
    for index, one in enumerate(failures):
        if one.host not in hosts:
            why = f"found {shown(one.host)}; the hosts are {hosts[0]} to {hosts[-1]}"
            yield At(["failures", index, "host"], why)
        elif one.host in before:
            why = f"found {shown(one.host)} twice; a host dies once"
            yield At(["failures", index, "host"], why)
        before.add(one.host)
        if duration_ns is not None and one.at_ns >= duration_ns:
            why = f"found {units.format_time(one.at_ns)}, and the run is over before that"
            yield At(["failures", index, "at"], why)
