"""What a host has and a task needs: five numbers, as people write them and as they are inside.

GPUs and processors are counted in thousandths, so that half a GPU is a whole number too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from basics import units
from basics.units import shown

THOUSANDTHS = 1000
LARGEST_COUNT = 10**6  # of GPUs or processors


def _count(value: object) -> int:
    """ "8" of something -> 8,000 thousandths."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"found {shown(value)}; it must be a number, like 8 or 0.5")
    if not 0 <= value <= LARGEST_COUNT or round(value * THOUSANDTHS) != value * THOUSANDTHS:
        raise ValueError(f"found {shown(value)}; it must be 0 to {LARGEST_COUNT}, in thousandths")
    return round(value * THOUSANDTHS)


def _written_count(milli: int) -> int | float:
    whole, rest = divmod(milli, THOUSANDTHS)
    return milli / THOUSANDTHS if rest else whole


@dataclass(frozen=True)
class Resource:
    name: str
    read: Callable[[object], int]
    write: Callable[[int], Any]


RESOURCES = (
    Resource("gpu", _count, _written_count),
    Resource("cpu", _count, _written_count),
    Resource("memory", units.size_byte, units.format_size),
    Resource("disk", units.size_byte, units.format_size),
    Resource("network", units.rate_bps, units.format_rate),
)
NAMES = tuple(resource.name for resource in RESOURCES)
GPU, NETWORK = NAMES.index("gpu"), NAMES.index("network")

Amounts = tuple[int, ...]  # one for each of RESOURCES
NOTHING: Amounts = (0,) * len(RESOURCES)


def amounts(known: Mapping[str, int]) -> Amounts:
    """What is not named is not needed."""
    return tuple(known.get(name, 0) for name in NAMES)


def said(name: str, amount: int) -> str:
    """An amount for people: "2 gpu", "4 GB memory"."""
    resource = RESOURCES[NAMES.index(name)]
    return f"{resource.write(amount)} {name}"
