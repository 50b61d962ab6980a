"""The parts of an experiment file: flow mixes and policies (jobs: testbed.specjobs).

People write `rate: 1 Gbit/s`; inside it is `rate_bps = 1000000000`, and the name says the unit.
Every complaint is a ValueError of ours with the words for the person at the keyboard, so none of
pydantic's own wording is ever seen. `testbed.spec` puts the parts together.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

import policies
from testbed import units
from testbed.specfile import At, nearest
from testbed.units import shown
from workloads import schedule, sizes

LARGEST_SCALE = 1000.0
# A policy's label names a folder beside these files of the run folder.
RESERVED_LABELS = frozenset({"experiment.yaml", "plan.json", "summary.json", "report.html"})

# ---- what a single value may be -----------------------------------------------------------


def above_zero(parse: Callable[[object], int]) -> Callable[[object], int]:
    def parsed(value: object) -> int:
        number = parse(value)
        if number == 0:
            raise ValueError(f"found {shown(value)}; it must be above zero")
        return number

    return parsed


def integer(low: int, high: int) -> Callable[[object], int]:
    def checked(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"found {shown(value)}; it must be a whole number, {low} to {high}")
        return value

    return checked


def number(low: float, high: float, what: str) -> Callable[[object], float]:
    def checked(value: object) -> float:
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if not usable or not low <= value <= high:  # type: ignore[operator]
            raise ValueError(f"found {shown(value)}; it must be {what}")
        return float(value)  # type: ignore[arg-type]

    return checked


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"found {shown(value)}; it must be true or false")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {shown(value)}; it must be text (put quotes around a number)")
    return " ".join(value.split())


def safe_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        raise ValueError(
            f"found {shown(value)}; it names a folder: use letters, digits, dots, dashes and "
            "underscores (64 at most), starting with a letter or digit"
        )
    return value


def known(what: str, names: Callable[[], Sequence[str]]) -> Callable[[object], str]:
    def checked(value: object) -> str:
        if not isinstance(value, str) or value not in names():
            raise ValueError(f"found {shown(value)}, an unknown {what}{nearest(value, names())}")
        return value

    return checked


def one_of(what: str, *names: str) -> Callable[[object], str]:
    return known(what, lambda: names)


def listed(value: object) -> list[Any]:
    if value is None:  # `flows:` with every entry commented out
        return []
    if not isinstance(value, list):
        raise ValueError(f"found {shown(value)}; it must be a list")
    return value


Time = Annotated[int, BeforeValidator(units.time_ns)]
SomeTime = Annotated[int, BeforeValidator(above_zero(units.time_ns))]
SomeSize = Annotated[int, BeforeValidator(above_zero(units.size_byte))]
Flag = Annotated[bool, BeforeValidator(flag)]
Text = Annotated[str, BeforeValidator(text)]
SafeName = Annotated[str, BeforeValidator(safe_name)]


class Spec(BaseModel):
    """A mapping in the file. Keys are checked here, so that the complaint can be ours."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)

    what: ClassVar[str] = "an entry"

    @classmethod
    def normal(cls, data: Any) -> Any:
        """What was written, with its shorthands written out and gaps filled in."""
        return data

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        """Every key that may be there, and whether it has to be."""
        fields = cls.model_fields.items()
        return {field.alias or name: field.is_required() for name, field in fields}

    @classmethod
    def gathered(cls, data: dict[Any, Any]) -> dict[Any, Any]:
        """The keys as fields, where the file's keys depend on its values."""
        return data

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        data = cls.normal(data)
        if not isinstance(data, dict):
            raise ValueError(f"found {shown(data)}; {cls.what} is a mapping (key: value)")
        keys = cls.keys(data)
        for key in data:
            if key not in keys:
                raise At([shown(key).strip("'")], f"unknown key{nearest(key, keys)}")
        needed = [key for key in keys if keys[key]]
        for key in needed:
            if key not in data:
                raise At([key], f"missing; {cls.what} needs {', '.join(needed)}")
        return cls.gathered(data)


# ---- the parts of an experiment -----------------------------------------------------------


def _arrivals(value: object) -> float:
    """Arrivals are per host: each host starts this many flows a second."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and not text.endswith(" per host"):
        raise ValueError(f"found {shown(value)}; write arrivals like 46 per second per host")
    rate = units.per_second(text.removesuffix(" per host") if isinstance(text, str) else text)
    if rate == 0:
        raise ValueError(f"found {shown(value)}; it must be above zero")
    return rate


def _positive_scale(value: object) -> float:
    return number(1e-6, LARGEST_SCALE, f"a number from 0.000001 to {LARGEST_SCALE:g}")(value)


def _schedule_path(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, str) and value and value.isprintable():
        base = info.context.get("folder", Path()) if info.context else Path()
        return Path(base, value).absolute()
    raise ValueError(f"found {shown(value)}; it must be the path of a CSV file")


class FlowMix(Spec):
    """Flows drawn (sizes, arrivals) or replayed (schedule).

    `scale` multiplies drawn sizes and the bounds of the size classes; replayed sizes stay as they
    are in the file, so there it moves the bounds only.
    """

    what: ClassVar[str] = "a flow mix"

    name: SafeName
    sizes: (
        Annotated[str, BeforeValidator(known("size distribution", lambda: list(sizes.available())))]
        | None
    ) = None
    scale: Annotated[float, BeforeValidator(_positive_scale)] = 1.0
    arrivals_per_second: Annotated[float, BeforeValidator(_arrivals)] | None = Field(
        alias="arrivals", default=None
    )
    pairs: Annotated[str, BeforeValidator(one_of("choice of pairs", "all-to-all"))] | None = None
    schedule: Annotated[Path, BeforeValidator(_schedule_path)] | None = None

    @classmethod
    def normal(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if "schedule" in data:
            if data["schedule"] is None:
                raise At(["schedule"], "found nothing; it must be the path of a CSV file")
            both = [key for key in ("sizes", "arrivals", "pairs") if key in data]
            if both:
                raise At([both[0]], "found beside schedule; a mix is either drawn or replayed")
            return data
        if "sizes" not in data and "arrivals" not in data:
            raise ValueError("found neither sizes nor schedule; give sizes and arrivals, or a file")
        for key, example in (("sizes", "web-search"), ("arrivals", "46 per second per host")):
            if data.get(key) is None:
                raise At([key], f"missing; a drawn mix needs it, like {example}")
        given = {key: value for key, value in data.items() if value is not None}
        return {"pairs": "all-to-all", **given}

    @property
    def small_max_byte(self) -> int:
        return schedule.class_bounds_byte(self.scale)[0]

    @property
    def large_min_byte(self) -> int:
        return schedule.class_bounds_byte(self.scale)[1]

    def plain(self) -> dict[str, Any]:
        if self.arrivals_per_second is None:
            return {"name": self.name, "schedule": str(self.schedule), "scale": self.scale}
        return {
            "name": self.name,
            "sizes": self.sizes,
            "scale": self.scale,
            "arrivals": f"{units.format_per_second(self.arrivals_per_second)} per host",
            "pairs": self.pairs,
        }


def _bands(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"found {shown(value)}; it must be like {{resnet50: low}}")
    for name, band in value.items():
        if not isinstance(name, str) or not isinstance(band, str):
            raise ValueError(f"found {shown(name)}: {shown(band)}; it must be like resnet50: low")
    return value


class PolicyChoice(Spec):
    """A policy to compare, and which band it gives to whom if not the policy's own choice."""

    what: ClassVar[str] = "a policy"

    policy: Annotated[str, BeforeValidator(known("policy", lambda: list(policies.available())))]
    label: SafeName
    bands: Annotated[dict[str, str], BeforeValidator(_bands)] = {}
    period_ns: SomeTime | None = Field(alias="period", default=None)  # of one that acts

    @classmethod
    def normal(cls, data: Any) -> Any:
        if isinstance(data, str):
            data = {"policy": data}
        if isinstance(data, dict) and "policy" in data:
            return {"label": data["policy"], **data}
        return data

    @field_validator("label")
    @classmethod
    def _not_a_file(cls, label: str) -> str:
        if label in RESERVED_LABELS:
            raise ValueError(f"found {shown(label)}, a file of the run folder; take another label")
        return label

    @model_validator(mode="after")
    def _bands_exist(self) -> Self:
        for name, band in self.bands.items():
            known = self.link_policy.bands
            if band not in known:
                raise At(["bands", name], f"found {shown(band)}{nearest(band, known)}")
        if self.period_ns is not None and not policies.available()[self.policy].period_ns:
            raise At(["period"], f"found one, but {self.policy} does nothing during a run")
        return self

    @property
    def link_policy(self) -> policies.LinkPolicy:
        own = policies.available()[self.policy]
        return own if self.period_ns is None else replace(own, period_ns=self.period_ns)

    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"policy": self.policy, "label": self.label}
        if self.period_ns is not None:
            plain["period"] = units.format_time(self.period_ns)
        return {**plain, "bands": dict(self.bands)} if self.bands else plain
