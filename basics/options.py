"""Settings of its own that a topology or a policy declares: experiment files then have those keys.

An option is a number, a time or a size within bounds, or one of a few values (`Choice`). Files
write times and sizes with their unit; inside, a value is in nanoseconds or bytes, and the code that
it is for gets it by a name that says so: the option `period` arrives as `period_ns`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from basics import units
from basics.units import shown

Value = int | float | str  # a flag is an int: True or False
Values = Mapping[str, Value]


@dataclass(frozen=True)
class _Written:
    """How people write a unit."""

    what: str
    read: Callable[[object], int]
    write: Callable[[int], str]


_WRITTEN = {
    "ns": _Written("a time", units.time_ns, units.format_time),
    "byte": _Written("a size", units.size_byte, units.format_size),
}
_NUMBERS = {None: "a number", 1: "a whole number", 2: "an even number"}


class Misfit(ValueError):
    """A value that cannot be, or not with the others; `key` is the one to change."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Option:
    """Something that experiment files can say, under a key of its own."""

    meaning: str
    low: float
    high: float
    default: float | None = None  # None: the file has to say
    step: int | None = 1  # of a number; None: any, 2.5 too
    unit: str = ""  # "ns" or "byte"; "": a plain number

    @property
    def allowed(self) -> str:
        what = _WRITTEN[self.unit].what if self.unit else _NUMBERS[self.step]
        bounds = f"{what}, {self._said(self.low)} to {self._said(self.high)}"
        return (
            bounds if self.default is None else f"{bounds}; {self._said(self.default)} if left out"
        )

    def read(self, value: object) -> Value:
        """What a file says, in base units. Raises ValueError in words for who wrote it."""
        number = _WRITTEN[self.unit].read(value) if self.unit else value
        if not self._allows(number):
            raise ValueError(f"found {shown(value)}; it must be {self.allowed}")
        return number  # type: ignore[return-value]

    def write(self, value: Value) -> Value | str:
        """The inverse of `read`."""
        return _WRITTEN[self.unit].write(int(value)) if self.unit else value

    def keyword(self, name: str) -> str:
        return f"{name}_{self.unit}" if self.unit else name

    def _said(self, value: float) -> str:
        if self.unit:
            return _WRITTEN[self.unit].write(int(value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    def _allows(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        stepped = self.step is None or (isinstance(value, int) and value % self.step == 0)
        return stepped and self.low <= value <= self.high


@dataclass(frozen=True)
class Choice:
    """One of a few values that experiment files can say; true and false are such values."""

    meaning: str
    values: tuple[Value, ...]
    default: Value | None = None

    @property
    def allowed(self) -> str:
        among = " or ".join(map(_worded, self.values))
        return among if self.default is None else f"{among}; {_worded(self.default)} if left out"

    def read(self, value: object) -> Value:
        """What a file says. Raises ValueError in words for who wrote it."""
        for known in self.values:
            if type(value) is type(known) and value == known:
                return known
        raise ValueError(f"found {shown(value)}; it must be {self.allowed}")

    def write(self, value: Value) -> Value | str:
        return value

    def keyword(self, name: str) -> str:
        return name


def _worded(value: Value) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def flag(meaning: str, *, default: bool) -> Choice:
    """Something that is so or not."""
    return Choice(meaning, (True, False), default)


Options = Mapping[str, Option | Choice]


def defaults(options: Options) -> dict[str, Value]:
    """What those options are that a file may leave out."""
    return {name: option.default for name, option in options.items() if option.default is not None}


def misfits(options: Options, data: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """(name, why) of every option that `data` says and that cannot be."""
    for name, option in options.items():
        if name in data:
            try:
                option.read(data[name])
            except ValueError as error:
                yield name, str(error)


def readable(options: Options, data: Mapping[Any, Any]) -> dict[str, Value]:
    """The value of every option, as `data` says or by default; without the misfits."""
    values = defaults(options)
    wrong = dict(misfits(options, data))
    values.update(
        (name, option.read(data[name]))
        for name, option in options.items()
        if name in data and name not in wrong
    )
    return {name: values[name] for name in options if name in values and name not in wrong}


def written(options: Options, values: Values) -> dict[str, Value | str]:
    """As an experiment file says it."""
    return {name: options[name].write(value) for name, value in values.items()}


def keywords(options: Options, values: Values) -> dict[str, Value]:
    """As code gets it: by names that say the unit, with defaults for what is not there."""
    known = {**defaults(options), **values}
    return {options[name].keyword(name): value for name, value in known.items()}


def told(options: Options, values: Values) -> dict[str, str]:
    """What is not so by default, as people read it: {"blocking": "false", "slice": "10 s"}."""
    usual = defaults(options)
    other = {name: value for name, value in values.items() if value != usual.get(name)}
    return {
        name: str(said).lower() if isinstance(said, bool) else str(said)
        for name, said in written(options, other).items()
    }


def described(options: Options) -> list[str]:
    """A line for each, for `giveway list`."""
    return [f"{name}: {option.meaning} ({option.allowed})" for name, option in options.items()]
