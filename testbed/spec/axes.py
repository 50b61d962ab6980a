"""The axes of a `sweep:` block: what each is called, and what each of its values sets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from basics.hints import nearest
from basics.units import shown
from testbed.spec.mistakes import Mistakes, refusal
from testbed.spec.yaml_file import Document, PutValue

LONGEST_LABEL = 64
AXIS_KEYS = ("title", "key", "values")
# What summary.parquet calls its other columns.
RESERVED = frozenset(
    {"point", "policy", "against", "metric", "unit", "value", "low", "high", "seeds", "fidelity"}
    | {"change", "change_low", "change_high", "reduction_thesis"}
    | {"reduction_thesis_low", "reduction_thesis_high"}
)

KeyValues = tuple[tuple[str, Any], ...]  # (key, value) pairs, set together


@dataclass(frozen=True)
class Axis:
    """One direction of the grid: labelled values, each of which sets one key or several."""

    name: str
    title: str
    values: Mapping[str, KeyValues]  # by label, in the order of the file
    origins: Mapping[str, PutValue] = field(
        default_factory=dict, compare=False
    )  # where each stands

    def plain(self) -> dict[str, Any]:
        values = {label: dict(settings) for label, settings in self.values.items()}
        return {"title": self.title, "values": values}


def read_axes(document: Document) -> tuple[Axis, ...]:
    """The axes of the `sweep:` block, in its order."""
    block = document.data["sweep"]
    mistakes = Mistakes()
    axes = []
    if not isinstance(block, dict) or not block:
        mistakes.add(
            ["sweep"],
            f"found {'no axis' if block == {} else shown(block)}; give axes and values, like "
            "training.0.iteration: [560 ms, 280 ms]",
        )
        block = {}
    for name, entry in block.items():
        try:
            axes.append(_located(document, _axis(name, entry), entry))
        except ValueError as error:
            mistakes.take(error, "sweep", name)
    if mistakes.found:
        raise refusal(document, mistakes)
    return tuple(axes)


def _located(document: Document, axis: Axis, entry: Any) -> Axis:
    """The same axis, knowing where in the file its values are."""
    way = ("sweep", axis.name) if isinstance(entry, list) else ("sweep", axis.name, "values")
    values = entry if isinstance(entry, list) else entry["values"]
    steps = range(len(values)) if isinstance(values, list) else values
    pairs = zip(axis.values, steps, strict=True)
    return replace(axis, origins={label: document.origin((*way, step)) for label, step in pairs})


def _axis(name: object, entry: object) -> Axis:
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError(f"found the name {shown(name)}; use letters, digits, dots and dashes")
    if name in RESERVED:
        raise ValueError("a column of summary.parquet has this name; take another")
    if isinstance(entry, list):
        return Axis(name, name, _values(name, entry))
    if not isinstance(entry, dict):
        raise ValueError(f"found {shown(entry)}; an axis is a list of values, or a mapping of them")
    mistakes = Mistakes()
    for key in entry:
        if key not in AXIS_KEYS:
            mistakes.add([key], "unknown key", partial(nearest, key, AXIS_KEYS))
    title, key = entry.get("title", name), entry.get("key")
    for what, text in (("title", title), ("key", key)):
        if text is not None and not isinstance(text, str):
            mistakes.add([what], f"found {shown(text)}; it must be text")
    mistakes.refuse()
    return Axis(name, title, _values(key, entry.get("values")))


def _values(key: str | None, values: object) -> dict[str, KeyValues]:
    """By label: a list is its own labels, a mapping names each value or set of values."""
    if not isinstance(values, list | dict) or not values:
        what = "no value" if values in ({}, []) else shown(values)
        raise ValueError(f"found {what}; an axis needs at least one, like [560 ms, 280 ms]")
    if isinstance(values, list):
        if key is None:
            raise ValueError("found a list of values, but not what they are for; add key: …")
        pairs = [(value, value) for value in values]
    else:
        pairs = list(values.items())
    found: dict[str, KeyValues] = {}
    mistakes = Mistakes()
    for name, value in pairs:
        try:
            label = _label(name)
            if label in found:
                raise ValueError(f"found {shown(label)} twice; every value may be there once")
            found[label] = _settings(key, label, value)
        except ValueError as error:
            mistakes.take(error)
    mistakes.refuse()
    return found


def _label(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError(f"found {shown(value)} as a value; give it a label: {{label: value}}")
    text = " ".join(str(value).split())
    if not 0 < len(text) <= LONGEST_LABEL or not text.isprintable():
        raise ValueError(f"found the label {shown(value)}; it must have 1 to 64 characters")
    return text


def _settings(key: str | None, label: str, value: object) -> KeyValues:
    if key is not None:
        return ((key, value),)
    if not isinstance(value, dict) or not value or not all(isinstance(k, str) for k in value):
        raise ValueError(f"{label}: found {shown(value)}; write what it sets: {{key: value, …}}")
    return tuple(value.items())
