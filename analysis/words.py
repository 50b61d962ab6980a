"""Numbers in words, the same in the terminal, the report and the answer."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"
NONE = "\N{EN DASH}"
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
HOUR_NS = 3600e9
MANY_SECONDS_NS = 3 * HOUR_NS  # from here on, hours read better

Interval = Sequence[float | None] | None
Units = Sequence[tuple[float, str]]  # how large, and its name; the largest first
UnitOf = Callable[[float], tuple[float, str]]  # which of them reads best for a value
MANY_JOBS = 4  # more are not listed one by one


RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def time_unit(largest_ns: float) -> tuple[float, str]:
    """The unit in which a time of this size reads best: (its length in ns, its name)."""
    if abs(largest_ns) >= MANY_SECONDS_NS:
        return HOUR_NS, "h"
    return _largest(UNITS, largest_ns)


def bit_rate_unit(largest_bps: float) -> tuple[float, str]:
    return _largest(RATES, largest_bps)


def duration(ns: float | None) -> str:
    """1234567 -> 1.23 ms."""
    return _measured(ns, time_unit)


def duration_interval(interval: Interval) -> str:
    return _between(interval, time_unit)


def bit_rate(bps: float | None) -> str:
    return _measured(bps, bit_rate_unit)


def bit_rate_interval(interval: Interval) -> str:
    return _between(interval, bit_rate_unit)


def size_unit(largest_byte: float) -> tuple[float, str]:
    return _largest(SIZES, largest_byte)


def size(byte: float | None) -> str:
    return _measured(byte, size_unit)


def size_interval(interval: Interval) -> str:
    return _between(interval, size_unit)


def _largest(units: Units, value: float) -> tuple[float, str]:
    return next((unit for unit in units if abs(value) >= unit[0]), units[-1])


def _measured(value: float | None, unit: UnitOf) -> str:
    if value is None or not math.isfinite(value):
        return NONE
    length, name = unit(float(f"{value:.3g}"))
    return f"{three_digits(value / length)}{SPACE}{name}"


def _between(interval: Interval, unit: UnitOf) -> str:
    ends = known(interval)
    if ends is None:
        return ""
    low, high = ends
    length, name = unit(float(f"{high:.3g}"))
    return f"{three_digits(low / length)} to {three_digits(high / length)}{SPACE}{name}"


def percent(share: float | None, *, signed: bool = True) -> str:
    """-0.312 -> −31 %; small shares keep a decimal."""
    if share is None or not math.isfinite(share):
        return NONE
    return f"{_percent_number(share, signed=signed, decimals=_decimals(share))}{SPACE}%"


def percent_interval(interval: Interval, *, signed: bool = True) -> str:
    ends = known(interval)
    if ends is None:
        return ""
    decimals = max(_decimals(end) for end in ends)
    if ends[0] < ends[1] and round(100 * ends[0], decimals) == round(100 * ends[1], decimals):
        decimals += 1
    low, high = (_percent_number(end, signed=signed, decimals=decimals) for end in ends)
    return f"{low} to {high}{SPACE}%"


def short_interval(interval: Interval) -> str:
    """An interval of shares for narrow places, in per cent: −74 to −60.

    One large end takes the decimals from both, if they stay apart from each other and from 0.
    """
    ends = known(interval)
    if ends is None:
        return ""
    whole = {round(100 * end) for end in ends}
    if any(_decimals(end) == 0 for end in ends) and len(whole | {0}) == 3:
        low, high = (_percent_number(end, signed=True, decimals=0) for end in ends)
        return f"{low} to {high}"
    return percent_interval(ends).removesuffix(f"{SPACE}%")


def verdict(entry: Mapping[str, Any] | None, better: str = "lower") -> str:
    """better, worse or unclear: does the interval of this change leave 0 out?

    few: something was measured, but too little for an interval. other: it changed, and neither
    direction is better.
    """
    if entry is None or entry["change"] is None:
        return ""
    ends = known(entry["interval_95"])
    if ends is None:
        return "few"
    low, high = ends
    if low <= 0 <= high:
        return "unclear"
    if better == "neither":
        return "other"
    return "better" if (high < 0) == (better == "lower") else "worse"


def known(interval: Interval) -> tuple[float, float] | None:
    """The two ends of an interval, if both are real numbers."""
    ends = [float(end) for end in interval or () if end is not None and math.isfinite(end)]
    return (ends[0], ends[1]) if len(ends) == 2 else None


def two_lines(title: str) -> str:
    """A heading of a narrow column, cut at its first blank: Small / flows, ring / (4 jobs)."""
    return title.replace(" ", "\n", 1)


def and_list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def _decimals(share: float) -> int:
    return 0 if abs(share) >= 0.0995 else 1


def _percent_number(share: float, *, signed: bool, decimals: int) -> str:
    text = f"{100 * share:+.{decimals}f}" if signed else f"{100 * share:.{decimals}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", MINUS)
