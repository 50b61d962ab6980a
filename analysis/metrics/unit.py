"""What the numbers of metrics are: how people write them in claims, and how they are shown."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from analysis import words
from analysis.words import NONE, SPACE, Interval
from basics import units
from basics.units import shown as quoted

Number = float | None


@dataclass(frozen=True)
class Unit:
    name: str
    symbol: str  # in tables for machines
    suffix: str  # ends the keys of summary.json
    example: str  # as a claim writes it
    parse: Callable[[str], float]  # what a person wrote, in the unit of the symbol
    shown: Callable[[Number], str]
    interval: Callable[[Interval], str]  # the same for two ends; nothing if there are none
    axis: Callable[[float], tuple[float, str]]  # largest value -> (to divide by, its name)
    less: str = "lower"
    more: str = "higher"


def axis_label(what: str, unit: str) -> str:
    """ "mean FCT (ms)"; a count has no unit to name."""
    return f"{what} ({unit})" if unit else what


def _plain(text: str, what: str, example: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text):
        raise ValueError(f"found {quoted(text)}; {what} is a plain number, like {example}")
    return float(text)


def _share(text: str) -> float:
    """Per cent; or, as it is in summary.json, a part of 1."""
    return units.change(text) if "%" in text else _plain(text, "a share without %", "0.05")


def _variance(text: str) -> float:
    return _plain(re.sub(r"\s*ms(²|2)$", "", text), "a variance (in ms²)", "12.5")


def _known(text: Callable[[float], str]) -> Callable[[Number], str]:
    def shown(value: Number) -> str:
        return NONE if value is None or not math.isfinite(value) else text(value)

    return shown


def _between(text: Callable[[float], str], ending: str) -> Callable[[Interval], str]:
    def interval(ends: Interval) -> str:
        known = words.known(ends)
        return "" if known is None else f"{text(known[0])} to {text(known[1])}{ending}"

    return interval


def _fine(value: float) -> str:
    """Three decimals where ratios are near 1, and three digits where they are not."""
    return f"{value:.3f}" if abs(value) < 10 else words.three_digits(value)


TIMES, SQUARED = f"{SPACE}×", f"{SPACE}ms²"

TIME = Unit(
    "time", "ns", "_ns", "500 ms",
    lambda text: float(units.time_ns(text)),
    words.duration, words.duration_interval, words.time_unit, "shorter", "longer",
)  # fmt: skip
SHARE = Unit(
    "share", "share", "", "5 %",
    _share,
    lambda value: words.percent(value, signed=False),
    lambda ends: words.percent_interval(ends, signed=False),
    lambda _: (0.01, "%"),
)  # fmt: skip
RATIO = Unit(
    "ratio", "ratio", "", "1.5",
    lambda text: _plain(text, "a ratio", "1.5"),
    _known(lambda value: f"{_fine(value)}{TIMES}"), _between(_fine, TIMES), lambda _: (1.0, "×"),
)  # fmt: skip
BIT_RATE = Unit(
    "bit rate", "bit/s", "_bps", "100 Mbit/s",
    lambda text: float(units.rate_bps(text)),
    words.bit_rate, words.bit_rate_interval, words.bit_rate_unit,
)  # fmt: skip
SIZE = Unit(
    "size", "byte", "_byte", "10 MB",
    lambda text: float(units.size_byte(text)),
    words.size, words.size_interval, words.size_unit,
)  # fmt: skip
COUNT = Unit(
    "count", "count", "", "3",
    lambda text: _plain(text, "a count", "3"),
    _known("{:.0f}".format), _between("{:.0f}".format, ""), lambda _: (1.0, ""),
)  # fmt: skip
VARIANCE = Unit(
    "variance of time", "ms²", "_ms2", "12.5 ms²",
    _variance,
    _known(lambda value: f"{value:.3g}{SQUARED}"),
    _between("{:.3g}".format, SQUARED), lambda _: (1.0, "ms²"),
)  # fmt: skip
