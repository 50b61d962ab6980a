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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from testbed.spec.axes import Axis, read_axes
from testbed.spec.experiment import Experiment, validated
from testbed.spec.mistakes import MOST_SHOWN, Mistakes, Refusal, bad, refusal
from testbed.spec.yaml_file import Document, read, with_overrides

MOST_RUNS = 100_000  # without --yes: more is a mistake more often than a wish
Labels = tuple[str, ...]  # of a point: one for each axis


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
        return len(self.points) * len(self.first.arms) * len(self.first.seeds)

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
    """The sweep in a file. Raises BadInput for whatever is wrong at any point."""
    document = with_overrides(read(path), overrides)
    if "sweep" not in document.data:
        raise bad(f"{path}: sweep: missing; this is a single experiment: `giveway run {path}`")
    axes = read_axes(document)
    count = math.prod(len(axis.values) for axis in axes)
    with suppress(Refusal):  # it is said below, with all that is wrong beside it
        _check_size(path, count, _at(document, axes, next(_grid(axes))), any_size)
    known = _looked_at(document, axes, _cross(axes))  # soon sees every value of every axis
    points = []
    for number, labels in enumerate(_grid(axes)):
        at = {axis.name: label for axis, label in zip(axes, labels, strict=True)}
        if labels not in known:
            known |= _looked_at(document, axes, [labels])
        slug = re.sub("[^A-Za-z0-9._]+", "-", "_".join(labels)).strip("-")[:60]
        points.append(Point(f"{number:0{len(str(count - 1))}d}-{slug}", at, known[labels]))
        _check_alike(path, points[0], points[-1])
    return Sweep(axes, tuple(points))


def _grid(axes: Sequence[Axis]) -> "itertools.product[tuple[str, ...]]":
    """The labels of every point; the last axis changes fastest."""
    return itertools.product(*(axis.values for axis in axes))


def _cross(axes: Sequence[Axis]) -> Iterator[Labels]:
    """The first point of the grid, and those that differ from it on one axis."""
    corner = next(_grid(axes))
    for at, axis in enumerate(axes):
        yield from ((*corner[:at], label, *corner[at + 1 :]) for label in axis.values)


def _looked_at(
    document: Document, axes: Sequence[Axis], points: Iterable[Labels]
) -> dict[Labels, Experiment]:
    """The experiments at some points; raises what is wrong at any of them, each mistake once."""
    known: dict[Labels, Experiment] = {}
    found: dict[str, str] = {}  # what to say, by what is wrong
    always: set[str] | None = None
    for labels in points:
        if labels in known:
            continue
        if len(found) > MOST_SHOWN:
            raise Refusal(found.values(), all_seen=False)
        try:
            known[labels] = _at(document, axes, labels)
        except Refusal as error:
            always = _without_sweep(document) if always is None else always
            at = ", ".join(
                f"{axis.name}: {label}" for axis, label in zip(axes, labels, strict=True)
            )
            for line in error.lines:
                told = line if line in always else f"{line} (at the sweep's point {at})"
                found.setdefault(line, told)
    if found:
        raise Refusal(found.values())
    return known


def _without_sweep(document: Document) -> set[str]:
    """What is wrong with the file whatever its sweep sets."""
    try:
        validated(_plain(document))
    except Refusal as error:
        return set(error.lines)
    return set()


def _plain(document: Document) -> Document:
    data = {key: value for key, value in document.data.items() if key != "sweep"}
    return replace(document, data=data)


def _at(document: Document, axes: Sequence[Axis], labels: Labels) -> Experiment:
    """The experiment at a point of the grid."""
    point = _plain(document)
    mistakes = Mistakes()
    for axis, label in zip(axes, labels, strict=True):
        origin = axis.origins[label]
        for key, value in axis.values[label]:
            try:
                point = point.having(replace(origin, keys=tuple(key.split("."))), value)
            except ValueError as error:
                mistakes.add(origin.keys, f"{key}: {error}")
    if mistakes.found:
        raise refusal(document, mistakes)
    return validated(point)


def _check_size(path: Path, points: int, corner: Experiment, any_size: bool) -> None:
    runs = points * len(corner.arms) * len(corner.seeds)
    if runs > MOST_RUNS and not any_size:
        raise bad(
            f"{path}: sweep: {points} points x {len(corner.arms)} policies x "
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
