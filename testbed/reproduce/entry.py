"""An entry of `giveway reproduce`: a file that says what was published and how near is near enough.

`experiments/reproduce/SOURCE/NAME.yaml` is the entry SOURCE/NAME. Every published number has a
tolerance and the reason for it, written before the comparison is made; a number without both does
not load. docs/reproductions.md is written from these files and from what was measured.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from analysis import metrics
from analysis.metrics import Unit
from basics import units
from basics.errors import BadInput
from basics.hints import nearest
from basics.units import shown
from testbed.spec.mistakes import Mistakes, bad, refusal
from testbed.spec.values import Flag, Spec, Text, listed, one_of
from testbed.spec.yaml_file import read as read_yaml

FOLDER = Path(__file__).parent.parent.parent / "experiments" / "reproduce"
KINDS = ("value", "change", "reduction_thesis")
VIEWS = ("map", "lines", "timelines", "waits", "hosts")


def _labels(value: object) -> dict[str, str]:
    """Labels by axis, as the sweep writes them: {ratio: 4} is {"ratio": "4"}."""
    if not isinstance(value, dict):
        raise ValueError(f"found {shown(value)}; it must be like {{ratio: 4}}")
    return {str(axis): str(label) for axis, label in value.items()}


def _places(value: object) -> list[dict[str, str]]:
    return [_labels(place) for place in listed(value)]


def _texts(value: object) -> tuple[str, ...]:
    found = listed(value)
    for entry in found:
        if not isinstance(entry, str | int | float):
            raise ValueError(f"found {shown(entry)}; it must be text or a number")
    return tuple(str(entry) for entry in found)


def _metric(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {shown(value)}; it must be a metric, like flows.small.fct_mean")
    try:
        metrics.known(value)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return value


Labels = Annotated[dict[str, str], BeforeValidator(_labels)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Number = Annotated[str, BeforeValidator(lambda value: str(value))]
MetricName = Annotated[str, BeforeValidator(_metric)]


@dataclass(frozen=True)
class Target:
    """One published number, in base units: ns, shares, or plain."""

    what: str
    metric: str
    at: dict[str, str]
    of: str
    kind: str
    value: float
    tolerance: float  # absolute, in the same unit
    tolerance_text: str
    reason: str
    holds: bool
    why: str

    @property
    def unit(self) -> Unit:
        """Of its metric."""
        return metrics.known(self.metric).unit


class Published(Spec):
    """Numbers that were published. `over` an axis: one value for each of its labels."""

    what: ClassVar[str] = "a published number"

    title: Text = Field(alias="what")
    metric: MetricName
    of: Text
    at: Labels = Field(default_factory=dict)
    kind: Annotated[str, BeforeValidator(one_of("kind", *KINDS))] = Field(
        alias="as", default="value"
    )
    over: Text | None = None
    labels: Texts = ()
    value: Number | None = None
    values: Texts = ()
    tolerance: Text
    reason: Text
    holds: Flag = True
    why: Text = ""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.value is None) == (not self.values):
            raise ValueError("give either value, or over, labels and values")
        mistakes = Mistakes()
        if self.values and (self.over is None or len(self.labels) != len(self.values)):
            mistakes.add(["values"], "over needs an axis, and as many labels as values")
        if not self.holds and not self.why:
            mistakes.add(["why"], "missing; a number that is not expected to hold needs the reason")
        if not self.reason:
            mistakes.add(["reason"], "found nothing; say why the tolerance is what it is")
        for index, text in enumerate(self.values):
            self._check(mistakes, text, "values", index)
        if self.value is not None:
            self._check(mistakes, self.value, "value")
        mistakes.refuse()
        return self

    def _check(self, mistakes: Mistakes, text: str, *path: str | int) -> None:
        try:
            value = self._number(text)
        except ValueError as error:
            mistakes.take(error, *path)
            return
        try:
            self._tolerance(value)
        except ValueError as error:
            mistakes.take(error, "tolerance")

    def targets(self) -> Iterator[Target]:
        places: list[tuple[dict[str, str], str]] = (
            [
                ({self.over or "": label}, text)
                for label, text in zip(self.labels, self.values, strict=True)
            ]
            if self.values
            else [({}, self.value or "")]
        )
        for place, text in places:
            at = {**self.at, **place}
            value = self._number(text)
            yield Target(
                what=self.title,
                metric=self.metric,
                at=at,
                of=self.of,
                kind=self.kind,
                value=value,
                tolerance=self._tolerance(value),
                tolerance_text=self.tolerance,
                reason=self.reason,
                holds=self.holds,
                why=self.why,
            )

    def _number(self, text: str) -> float:
        return (
            units.change(text)
            if self.kind != "value"
            else metrics.known(self.metric).unit.parse(text)
        )

    def _tolerance(self, value: float) -> float:
        """ "2 %" is of the value, "5 points" are of 100 %, anything else has the value's unit."""
        points = re.fullmatch(r"([0-9.]+) points?", self.tolerance)
        if points:
            return float(points[1]) / 100
        if self.tolerance.endswith("%"):
            return abs(value) * abs(units.change(self.tolerance))
        return abs(self._number(self.tolerance))


class View(Spec):
    """A picture of the results: a map over two axes, lines over one; at points: timelines, waits
    at barriers, the use of hosts."""

    what: ClassVar[str] = "a view"

    kind: Annotated[str, BeforeValidator(one_of("view", *VIEWS))]
    title: Text
    metric: MetricName = ""  # of maps and lines
    of: Texts = ()
    value: Annotated[str, BeforeValidator(one_of("kind", *KINDS))] = Field(
        alias="as", default="value"
    )
    rows: Text = ""
    columns: Text = ""
    by: Text = ""  # lines: one for each label of this axis, instead of one for each policy
    at: Labels = Field(default_factory=dict)
    bounds: Texts = ()  # map: green below the first, red above the second
    points: Annotated[tuple[dict[str, str], ...], BeforeValidator(_places)] = ()


class Beside(Spec):
    """Some points on another engine too, for a look at both side by side.

    `instead`: asked for that engine alone (`--engine`), these points are all that is run. `kept`: a
    file beside the entry with what that engine once gave, shown where it is not run again.
    `there_only`: `set` is for that engine alone.
    """

    what: ClassVar[str] = "a comparison"

    engine: Text
    set: Texts = ()
    points: Annotated[tuple[dict[str, str], ...], BeforeValidator(_places)]
    takes: Text
    instead: Flag = False
    there_only: Flag = False
    kept: Text = ""


class Entry(Spec):
    """`set`: keys of the sweep that are other in this entry. `kept`: a file beside it with what its
    engine once gave, judged wherever no `--engine` asks for it anew."""

    what: ClassVar[str] = "an entry"

    source: Text
    shows: Text
    takes: Text
    engine: Text = "fluid"
    sweep: Text | None = None
    set: Texts = ()
    kept: Text = ""
    compute: Annotated[str, BeforeValidator(one_of("computation", "slack"))] | None = None
    profile: Text = ""
    views: Annotated[tuple[View, ...], BeforeValidator(listed)] = ()
    published: Annotated[tuple[Published, ...], BeforeValidator(listed)] = ()
    beside: Beside | None = None
    note: Text = ""

    @model_validator(mode="after")
    def _has_a_subject(self) -> Self:
        if (self.sweep is None) == (self.compute is None):
            raise ValueError("an entry has either a sweep (a file) or a computation")
        return self

    @property
    def targets(self) -> list[Target]:
        return [target for published in self.published for target in published.targets()]


Status = Literal["reproduced", "differs", "missing"]


def names() -> list[str]:
    """Every entry, in the order in which people count."""
    found = [str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.yaml")]
    return sorted(
        found, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]
    )


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.yaml"


def load(name: str) -> Entry:
    if name not in names():
        raise bad(f"{name}: nothing of this name can be reproduced{nearest(name, names())}")
    return read(path_of(name))


def read(path: Path) -> Entry:
    document = read_yaml(path)
    try:
        return Entry.model_validate(document.data)
    except ValidationError as error:
        raise refusal(document, error) from None
