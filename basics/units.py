"""Human units in, integer base units inside: the only place that knows what "10 us" means.

Every `parse` function takes what a person wrote and returns nanoseconds, bytes, bit/s or
packets as an exact integer (shares and rates of events are floats). Every `format_` function is
its inverse: parse(format(x)) == x. Anything else is a ValueError that says what was found and
what is allowed.
"""

import re
import sys
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction

LARGEST = 2**63 - 1  # what a Parquet int64 column can hold

# Each table goes from the smallest unit to the largest; formatting uses FORMAT_* only.
_TIME = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_SIZE = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_RATE = {
    "bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12,
    "bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12,
}  # fmt: skip
_PACKETS = {"packets": 1, "packet": 1}
_PER_SECOND = {"per second": 1, "/s": 1, "/ s": 1}
_PERCENT = {"%": 1}

_NUMBER = re.compile(
    r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*", re.S
)
_LONGEST_NUMBER = 40  # characters; longer ones are a mistake, and slow to compute with
_LONGEST_TEXT = 200  # characters with the unit and blanks; a pattern may look at each many times
_EXACT = Context(prec=400)  # no product of a 40-character number and a unit is ever rounded


def shown(value: object, limit: int = 60) -> str:
    """What a person wrote, quoted, on one line and never long (safe for nested monsters)."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**limit:
        return "an enormous number"
    if isinstance(value, dict | list | tuple | set):
        return {dict: "a mapping", set: "a set"}.get(type(value), "a list")
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _parse(value: object, what: str, units: Mapping[str, int], examples: str) -> Decimal:
    """The exact number of base units that `value` stands for."""
    allowed = f"write {what} like {examples}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"found {shown(value)}, which has no unit; {allowed}")
    if not isinstance(value, str):
        raise ValueError(f"found {shown(value)}; {allowed}")
    if len(value) > _LONGEST_TEXT:
        raise ValueError(f"found {shown(value)}, a number beyond all measure; {allowed}")
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise ValueError(f"found {shown(value)}, which does not start with a number; {allowed}")
    number, unit = match[1], " ".join(match[2].split())
    if not unit:
        raise ValueError(f"found {shown(value)}, which has no unit; {allowed}")
    if unit not in units:
        known = ", ".join(name for name in units if name.isascii())
        raise ValueError(
            f"found {shown(value)} with the unknown unit {shown(unit)}; "
            f"known units: {known}; {allowed}"
        )
    exponent = re.split("[eE]", number)[1:]
    if len(number) > _LONGEST_NUMBER or (exponent and abs(int(exponent[0])) > 99):
        raise ValueError(f"found {shown(value)}, a number beyond all measure; {allowed}")
    return _EXACT.multiply(Decimal(number), Decimal(units[unit]))


def _whole(value: object, what: str, units: Mapping[str, int], examples: str) -> int:
    base = _parse(value, what, units, examples)
    if base < 0:
        raise ValueError(f"found {shown(value)}, which is negative; write {what} like {examples}")
    if base > LARGEST:
        raise ValueError(f"found {shown(value)}, which is too large; write {what} like {examples}")
    if base != base.to_integral_value():
        smallest = next(iter(units))
        raise ValueError(f"found {shown(value)}, which is not a whole number of {smallest}")
    return int(base)


def time_ns(value: object) -> int:
    """ "10 us" -> 10000."""
    return _whole(value, "a time", _TIME, "10 us, 480 ms or 4 s")


def size_byte(value: object) -> int:
    """ "10 MB" -> 10000000; "1 MiB" -> 1048576."""
    return _whole(value, "a size", _SIZE, "100 kB, 10 MB or 64 MiB")


def rate_bps(value: object) -> int:
    """ "1 Gbit/s" -> 1000000000. Bits, never bytes: "GB/s" is refused."""
    return _whole(value, "a rate", _RATE, "100 Mbit/s or 10 Gbit/s")


def packets(value: object) -> int:
    """ "1000 packets" -> 1000."""
    return _whole(value, "a queue", _PACKETS, "1000 packets")


def per_second(value: object) -> float:
    """ "46 per second" -> 46.0."""
    number = _parse(value, "a rate of events", _PER_SECOND, "46 per second")
    if number < 0:
        raise ValueError(f"found {shown(value)}, which is negative; write it like 46 per second")
    return float(number)


def share(value: object) -> float:
    """ "6.25 %" -> 0.0625, from 0 % to 100 %."""
    part = change(value)
    if not 0 <= part <= 1:
        raise ValueError(f"found {shown(value)}; a share is from 0 % to 100 %, like 6.25 %")
    return part


def change(value: object) -> float:
    """ "-10 %" -> -0.1: like a share, but it may be negative or above 100 %."""
    return float(_EXACT.scaleb(_parse(value, "a percentage", _PERCENT, "6.25 %"), -2))


def _format(value: int, units: Mapping[str, int], names: tuple[str, ...]) -> str:
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{value} is out of range: 0 to {LARGEST}")
    name = max((n for n in names if units[n] <= value), key=lambda n: units[n], default=names[0])
    return f"{_plain(_EXACT.divide(Decimal(value), Decimal(units[name])))} {name}"


def _plain(number: Decimal) -> str:
    """No exponent and no trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_time(ns: int) -> str:
    """480000000 -> "480 ms"."""
    return _format(ns, _TIME, ("s", "ms", "us", "ns") if ns == 0 else ("ns", "us", "ms", "s"))


def format_size(byte: int) -> str:
    """10000000 -> "10 MB" (decimal units)."""
    return _format(byte, _SIZE, ("B", "kB", "MB", "GB", "TB"))


def format_rate(bps: int) -> str:
    """1000000000 -> "1 Gbit/s"."""
    return _format(bps, _RATE, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"))


def format_packets(count: int) -> str:
    """1000 -> "1000 packets"."""
    return _format(count, _PACKETS, ("packets",))


def format_per_second(rate: float) -> str:
    """46.0 -> "46 per second"."""
    return f"{_short(rate)} per second"


def format_share(part: float) -> str:
    """0.0625 -> "6.25 %"."""
    return f"{_short(part, shift=2)} %"


def format_change(part: float) -> str:
    """-0.1 -> "-10 %"."""
    return format_share(part)


def _short(number: float, shift: int = 0) -> str:
    """The shortest decimal that reads back as this very float."""
    if not abs(number) <= sys.float_info.max:
        raise ValueError(f"{number} is not a finite number")
    exact = _EXACT.scaleb(Decimal(repr(float(number))), shift)
    plain = _plain(exact)
    return plain if len(plain) <= _LONGEST_NUMBER else str(exact)


def multiplied(value: int, factor: float) -> int:
    """value x factor, rounded to a whole number as the factor is written (0.1 is a tenth)."""
    return round(value * Fraction(repr(factor)))
