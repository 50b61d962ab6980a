"""A sweep: one experiment file whose `sweep:` block makes a grid of experiments out of it.

`load` is the way in. Every point of the grid is the file with some keys set to other values, and
passes the same door as a file of its own: what is wrong at any point is said before anything is
started. docs/sweeps.md has the syntax.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.errors import BadInput
from testbed.spec import Experiment, validated
from testbed.specfile import bad, nearest, read_mapping, with_overrides, with_value
from testbed.units import shown

MOST_RUNS = 100_000  # without --yes: more is a mistake more often than a wish
LONGEST_LABEL = 64
AXIS_KEYS = ("title", "key", "values")
# What summary.parquet calls its other columns.
RESERVED = frozenset(
    {"point", "policy", "against", "metric", "unit", "value", "low", "high", "seeds", "fidelity"}
    | {"change", "change_low", "change_high", "reduction_thesis"}
    | {"reduction_thesis_low", "reduction_thesis_high"}
)

Settings = tuple[tuple[str, Any], ...]  # (key, value) pairs, set together


@dataclass(frozen=True)
class Axis:
    """One direction of the grid: labelled values, each of which sets one key or several."""

    name: str
    title: str
    values: Mapping[str, Settings]  # by label, in the order of the file

    def plain(self) -> dict[str, Any]:
        values = {label: dict(settings) for label, settings in self.values.items()}
        return {"title": self.title, "values": values}


@dataclass(frozen=True)
class Point:
    """One experiment of the grid, and the label that it has on every axis."""

    folder: str
    at: Mapping[str, str]
    experiment: Experiment

    @property
    def name(self) -> str:
        return ", ".join(f"{axis} {label}" for axis, label in self.at.items())


@dataclass(frozen=True)
class Sweep:
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    @property
    def first(self) -> Experiment:
        """What all points share can be read off the first: name, question, policies, seeds."""
        return self.points[0].experiment

    @property
    def runs(self) -> int:
        return len(self.points) * len(self.first.policies) * len(self.first.seeds)

    def to_yaml(self) -> str:
        """The sweep with every default written out; it loads back to an equal one."""
        block = {"sweep": {axis.name: axis.plain() for axis in self.axes}}
        written: str = yaml.safe_dump(block, sort_keys=False, allow_unicode=True, width=100)
        return self.first.to_yaml() + written

    def fingerprint(self) -> str:
        """Of all that decides what is run: every point as resolved, and replayed schedules."""
        told = [
            [point.folder, point.experiment.to_yaml(), _schedules(point.experiment)]
            for point in self.points
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _schedules(experiment: Experiment) -> list[str]:
    files = [mix.schedule for mix in experiment.flows if mix.schedule is not None]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def load(path: Path, overrides: Sequence[str] = (), *, any_size: bool = False) -> Sweep:
    """The sweep in a file. Raises BadInput, in one line, for whatever is wrong at any point."""
    data = with_overrides(path, read_mapping(path), overrides)
    if "sweep" not in data:
        raise bad(f"{path}: sweep: missing; this is a single experiment: `giveway run {path}`")
    plain = {key: value for key, value in data.items() if key != "sweep"}
    axes = read_axes(path, data["sweep"])
    count = math.prod(len(axis.values) for axis in axes)
    width = len(str(count - 1))
    corner = _point(path, plain, axes, 0, next(_grid(axes)), width)
    _check_size(path, count, corner.experiment, any_size)
    points = tuple(
        _point(path, plain, axes, number, labels, width)
        for number, labels in enumerate(_grid(axes))
    )
    for point in points:
        _check_alike(path, corner, point)
    return Sweep(axes, points)


def read_axes(path: Path, block: object) -> tuple[Axis, ...]:
    """The axes of a `sweep:` block, in its order."""
    if not isinstance(block, dict) or not block:
        raise bad(
            f"{path}: sweep: found {'no axis' if block == {} else shown(block)}; give axes and "
            "values, like training.0.iteration: [560 ms, 280 ms]"
        )
    axes = []
    for name, entry in block.items():
        try:
            axes.append(_axis(name, entry))
        except ValueError as error:
            raise bad(f"{path}: sweep.{name}: {error}") from None
    return tuple(axes)


def _axis(name: object, entry: object) -> Axis:
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError(f"found the name {shown(name)}; use letters, digits, dots and dashes")
    if name in RESERVED:
        raise ValueError("a column of summary.parquet has this name; take another")
    if isinstance(entry, list):
        return Axis(name, name, _values(name, entry))
    if not isinstance(entry, dict):
        raise ValueError(f"found {shown(entry)}; an axis is a list of values, or a mapping of them")
    for key in entry:
        if key not in AXIS_KEYS:
            raise ValueError(f"found {shown(key)}, an unknown key{nearest(key, AXIS_KEYS)}")
    title, key = entry.get("title", name), entry.get("key")
    for what, text in (("title", title), ("key", key)):
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{what}: found {shown(text)}; it must be text")
    return Axis(name, title, _values(key, entry.get("values")))


def _values(key: str | None, values: object) -> dict[str, Settings]:
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
    found: dict[str, Settings] = {}
    for name, value in pairs:
        label = _label(name)
        if label in found:
            raise ValueError(f"found {shown(label)} twice; every value may be there once")
        found[label] = _settings(key, label, value)
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


def _settings(key: str | None, label: str, value: object) -> Settings:
    if key is not None:
        return ((key, value),)
    if not isinstance(value, dict) or not value or not all(isinstance(k, str) for k in value):
        raise ValueError(f"{label}: found {shown(value)}; write what it sets: {{key: value, …}}")
    return tuple(value.items())


def _grid(axes: Sequence[Axis]) -> "itertools.product[tuple[str, ...]]":
    """The labels of every point; the last axis changes fastest."""
    return itertools.product(*(axis.values for axis in axes))


def _point(
    path: Path,
    data: dict[Any, Any],
    axes: Sequence[Axis],
    number: int,
    labels: Sequence[str],
    width: int,
) -> Point:
    at = {axis.name: label for axis, label in zip(axes, labels, strict=True)}
    for axis in axes:
        for key, value in axis.values[at[axis.name]]:
            try:
                data = with_value(data, key, value)
            except ValueError as error:
                raise bad(f"{path}: sweep.{axis.name}: {key}: {error}") from None
    try:
        experiment = validated(path, data)
    except BadInput as error:
        where = ", ".join(f"{axis}: {label}" for axis, label in at.items())
        raise bad(f"{error} (at the sweep's point {where})") from None
    slug = re.sub("[^A-Za-z0-9._]+", "-", "_".join(labels)).strip("-")[:60]
    return Point(f"{number:0{width}d}-{slug}", at, experiment)


def _check_size(path: Path, points: int, corner: Experiment, any_size: bool) -> None:
    runs = points * len(corner.policies) * len(corner.seeds)
    if runs > MOST_RUNS and not any_size:
        raise bad(
            f"{path}: sweep: {points} points x {len(corner.policies)} policies x "
            f"{len(corner.seeds)} seeds are {runs} runs; more than {MOST_RUNS} need --yes"
        )


def _check_alike(path: Path, corner: Point, point: Point) -> None:
    """Points are compared with each other, so each has the same policies and seeds."""
    for what in ("name", "seeds", "policies"):
        here, there = (
            [choice.label for choice in found] if what == "policies" else found
            for found in (getattr(corner.experiment, what), getattr(point.experiment, what))
        )
        if here != there:
            raise bad(
                f"{path}: sweep: found other {what} at the point {point.name} than at "
                f"{corner.name}; all points of a sweep have the same"
            )
