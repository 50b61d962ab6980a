"""TCP as an experiment asks for it: who slows down, how much may be under way, how long to wait."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from basics import units
from basics.units import shown
from testbed.spec.values import Spec, above_zero, one_of

CONTROLS = ("cubic", "reno", "bbr", "dctcp", "mltcp")
# TCP's window is a number of 16 bits shifted by 14 at most, and a buffer is twice a window.
LARGEST_WINDOW_BYTE = 2**30 - 2**14
LEAST_WINDOW_BYTE = 4096  # a frame and its bookkeeping; the kernel's own least
LONGEST_RTO_MIN_NS = 60 * 10**9


def _window(value: object) -> int | None:
    if value == "auto":
        return None
    byte = above_zero(units.size_byte)(value)
    if not LEAST_WINDOW_BYTE <= byte <= LARGEST_WINDOW_BYTE:
        raise ValueError(
            f"found {shown(value)}; it must be auto, or {LEAST_WINDOW_BYTE} B to "
            f"{LARGEST_WINDOW_BYTE} B, the largest that TCP has"
        )
    return byte


def _rto_min(value: object) -> int | None:
    if value == "auto":
        return None
    time_ns = above_zero(units.time_ns)(value)
    if time_ns > LONGEST_RTO_MIN_NS:
        most = units.format_time(LONGEST_RTO_MIN_NS)
        raise ValueError(f"found {shown(value)}; it must be auto, or {most} at most")
    return time_ns


class Transport(Spec):
    """`tcp: reno` is short for `tcp: {control: reno}`; auto is as the kernel has it."""

    what: ClassVar[str] = "tcp"

    control: Annotated[str, BeforeValidator(one_of("congestion control", *CONTROLS))] = "cubic"
    window_byte: Annotated[int | None, BeforeValidator(_window)] = Field(
        alias="window", default=None
    )  # how much sender and receiver have room for; none: the kernel's autotuning
    rto_min_ns: Annotated[int | None, BeforeValidator(_rto_min)] = Field(
        alias="rto_min", default=None
    )  # the shortest retransmission timeout; none: the kernel's own

    @classmethod
    def normal(cls, data: Any) -> Any:
        return {"control": data} if isinstance(data, str) else data

    def plain(self) -> str | dict[str, str]:
        asked = {}
        if self.window_byte is not None:
            asked["window"] = units.format_size(self.window_byte)
        if self.rto_min_ns is not None:
            asked["rto_min"] = units.format_time(self.rto_min_ns)
        return {"control": self.control, **asked} if asked else self.control
