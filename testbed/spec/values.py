"""What a value and a mapping of an experiment file may be.

People write `rate: 1 Gbit/s`; inside it is `rate_bps = 1000000000`, and the name says the unit.
Every complaint is a ValueError of ours with the words for the person at the keyboard, so none of
pydantic's own wording is ever seen.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from basics import units
from basics.errors import BadInput
from basics.hints import alike, nearest
from basics.units import shown
from testbed.spec.mistakes import MOST_SHOWN, At, Mistakes

MOST_ENTRIES = 1000  # of a list, where nothing else limits it


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
            hint = partial(nearest, value, names())
            raise At([], f"found {shown(value)}, an unknown {what}", hint)
        return value

    return _naming(checked, names)


def usable(
    what: str, shelf: Callable[[], Mapping[str, object]], help_: str = ""
) -> Callable[[object], str]:
    """The name of a file that can be used; reading it may raise BadInput."""

    def checked(value: object) -> str:
        there = shelf()
        if not isinstance(value, str) or value not in there:
            why = f"found {shown(value)}, an unknown {what}"
            raise At([], why, lambda: f"{nearest(value, there)}{help_}")
        try:
            _ = there[value]
        except BadInput as error:
            raise ValueError(str(error)) from None
        return value

    return _naming(checked, lambda: list(shelf()))


def _naming(
    check: Callable[[object], str], names: Callable[[], Sequence[str]]
) -> Callable[[object], str]:
    """A check that can be asked what it takes: for docs/experiment-file.md and its schema."""
    setattr(check, "names", names)  # noqa: B010
    return check


def one_of(what: str, *names: str) -> Callable[[object], str]:
    return known(what, lambda: names)


def up_to(most: int) -> Callable[[object], list[Any]]:
    """A list that is not too long: what follows looks at every entry."""

    def checked(value: object) -> list[Any]:
        if value is None:  # `flows:` with every entry commented out
            return []
        if not isinstance(value, list):
            raise ValueError(f"found {shown(value)}; it must be a list")
        if len(value) > most:
            raise ValueError(f"found {len(value)} entries; {most} are the most")
        return value

    return checked


listed = up_to(MOST_ENTRIES)


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
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        """What is wrong with the keys together, before their values are looked at."""
        return iter(())

    @classmethod
    def gathered(cls, data: dict[Any, Any]) -> dict[Any, Any]:
        """The keys as fields, where the file's keys depend on its values."""
        return data

    @model_validator(mode="wrap")
    @classmethod
    def _all_at_once(cls, data: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        """Every mistake in the mapping: in its keys, and in the values that can be looked at."""
        if isinstance(data, cls):
            return data
        data = cls.normal(data)
        if not isinstance(data, dict):
            raise ValueError(f"found {shown(data)}; {cls.what} is a mapping (key: value)")
        keys = cls.keys(data)
        mistakes = Mistakes(cls.misfits(data))
        unknown = [key for key in data if key not in keys]
        for key in unknown:
            mistakes.add([key], "unknown key", partial(nearest, key, keys))
        needed = [key for key in keys if keys[key]]
        meant = {name for key in unknown[:MOST_SHOWN] for name in alike(key, needed, 0.7)}
        missing = [key for key in needed if key not in data and key not in meant]
        if missing:
            too = f", and so are {', '.join(missing[1:])}" if missing[1:] else ""
            mistakes.add(missing[:1], f"missing{too}; {cls.what} needs {', '.join(needed)}")
        try:
            made = make(cls.gathered({key: data[key] for key in data if key in keys}))
        except ValidationError as error:
            mistakes.take(error)
        mistakes.refuse()
        return made
