"""Values of which each job draws its own: `2` or `1 to 4`, `1 GB to 8 GB`."""

from collections.abc import Callable
from typing import Any

import yaml

from basics.units import shown

Span = tuple[int, int]  # the least and the most
WORD = " to "


def span(read: Callable[[object], int], example: str) -> Callable[[object], Span]:
    """One value, or the least and the most; `read` knows what a value is."""

    def checked(value: object) -> Span:
        if not isinstance(value, str) or WORD not in value:
            one = read(value)
            return one, one
        low, high = (read(_plain(part)) for part in value.split(WORD, 1))
        if low > high:
            raise ValueError(f"found {shown(value)}; write the smaller one first, like {example}")
        return low, high

    return checked


def _plain(text: str) -> object:
    """Numbers without a unit are numbers here too."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def written(ends: Span, write: Callable[[int], Any]) -> Any:
    low, high = map(write, ends)
    return low if low == high else f"{low}{WORD}{high}"
