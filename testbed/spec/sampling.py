"""What of the inside of a run is sampled, and how often."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from basics import units
from basics.units import shown
from testbed.spec.values import Spec

SHORTEST_NS, LONGEST_NS, USUAL_NS = 10_000, 10**9, 10**6


def _interval(value: object) -> int:
    time_ns = units.time_ns(value)
    if not SHORTEST_NS <= time_ns <= LONGEST_NS:
        least, most = units.format_time(SHORTEST_NS), units.format_time(LONGEST_NS)
        raise ValueError(f"found {shown(value)}; it must be {least} to {most}")
    return time_ns


class Sampling(Spec):
    """`sample: tcp` is short for `sample: {tcp: 1 ms}`."""

    what: ClassVar[str] = "sample"

    tcp_ns: Annotated[int, BeforeValidator(_interval)] = Field(alias="tcp")  # of every connection

    @classmethod
    def normal(cls, data: Any) -> Any:
        return {data: units.format_time(USUAL_NS)} if isinstance(data, str) else data

    def plain(self) -> dict[str, str]:
        return {"tcp": units.format_time(self.tcp_ns)}
