"""The flow mixes of an experiment file (jobs.py has jobs, policy.py policies)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo

from basics import units
from basics.units import shown
from testbed.spec.mistakes import At
from testbed.spec.values import SafeName, Spec, number, usable
from workloads import schedule, sizes

LARGEST_SCALE = 1000.0
ALL_TO_ALL = "all-to-all"
FEWEST_SENDERS = 2
INCAST = re.compile(r"incast ([2-9]|[1-9][0-9]{1,5})")


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


def _pairs(value: object) -> str:
    """Who sends to whom."""
    text = " ".join(value.split()) if isinstance(value, str) else value
    if text == ALL_TO_ALL or (isinstance(text, str) and INCAST.fullmatch(text)):
        return text
    raise ValueError(
        f"found {shown(value)}; it must be {ALL_TO_ALL}, or incast and how many senders, "
        f"{FEWEST_SENDERS} or more, like incast 8"
    )


class FlowMix(Spec):
    """Flows drawn (sizes, arrivals) or replayed (schedule).

    Drawn flows go from all to all at random times, or at regular ones from so many senders to one
    (`pairs: incast 8`): `arrivals` says how many flows a host starts a second in both.

    `scale` multiplies drawn sizes and the bounds of the size classes; replayed sizes stay as they
    are in the file, so there it moves the bounds only.
    """

    what: ClassVar[str] = "a flow mix"

    name: SafeName
    sizes: (
        Annotated[str, BeforeValidator(usable("size distribution", lambda: sizes.available()))]
        | None
    ) = None
    scale: Annotated[float, BeforeValidator(_positive_scale)] = 1.0
    arrivals_per_second: Annotated[float, BeforeValidator(_arrivals)] | None = Field(
        alias="arrivals", default=None
    )
    pairs: Annotated[str, BeforeValidator(_pairs)] | None = None
    schedule: Annotated[Path, BeforeValidator(_schedule_path)] | None = None

    @classmethod
    def normal(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "schedule" in data:
            return data
        given = {key: value for key, value in data.items() if value is not None}
        return {"pairs": ALL_TO_ALL, **given}

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        if "schedule" in data:
            if data["schedule"] is None:
                yield At(["schedule"], "found nothing; it must be the path of a CSV file")
            for key in [key for key in ("sizes", "arrivals", "pairs") if key in data][:1]:
                yield At([key], "found beside schedule; a mix is either drawn or replayed")
        elif "sizes" not in data and "arrivals" not in data:
            yield At([], "found neither sizes nor schedule; give sizes and arrivals, or a file")
        else:
            for key, example in (("sizes", "web-search"), ("arrivals", "46 per second per host")):
                if key not in data:
                    yield At([key], f"missing; a drawn mix needs it, like {example}")

    @property
    def senders(self) -> int | None:
        """How many send to one at a time; None: everybody sends to anybody at any time."""
        incast = INCAST.fullmatch(self.pairs or "")
        return int(incast[1]) if incast else None

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
