"""What is wrong with a file: every mistake at once, each in one line that names its place.

Checks raise ValueError, `At` for a key below the one being checked, or `Mistakes` for several.
pydantic gathers them; `refusal` turns them into "file:line: key: what was found; what is allowed".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from pydantic import ValidationError

from basics.errors import BadInput
from basics.units import shown

MOST_SHOWN = 20
LONGEST_LINE = 1000  # characters, whatever a message quotes

Key = str | int
Hint = Callable[[], str]


class At(ValueError):
    """A complaint about a key below the one being validated.

    The hint ends the line. It is thought of only if the line is shown: a file can have tens of
    thousands of unknown names, and finding the nearest known ones takes a while.
    """

    def __init__(self, path: Sequence[object], message: str, hint: Hint = str) -> None:
        super().__init__(message)
        self.path = tuple(path)
        self.hint = hint

    @property
    def told(self) -> str:
        return f"{self}{self.hint()}"


class Mistakes(ValueError):
    """Several complaints, none of which follows from another."""

    def __init__(self, found: Iterable[At] = ()) -> None:
        super().__init__("several mistakes")
        self.found = list(found)

    def add(self, path: Sequence[object], message: str, hint: Hint = str) -> None:
        self.found.append(At(path, message, hint))

    def take(self, error: ValueError, *path: object) -> None:
        """Every complaint in an error, as one about something below `path`."""
        self.found += [At((*path, *at.path), str(at), at.hint) for at in complaints(error)]

    def refuse(self) -> None:
        """Raise what was found; with nothing, go on."""
        if self.found:
            raise self


def complaints(error: ValueError) -> Iterator[At]:
    """The single complaints that an error is made of."""
    if isinstance(error, Mistakes):
        yield from error.found
    elif isinstance(error, At):
        yield error
    elif isinstance(error, ValidationError):
        for entry in error.errors(include_url=False):
            cause = entry.get("ctx", {}).get("error")
            if not isinstance(cause, ValueError):
                cause = ValueError(f"found {shown(entry['input'])}; {entry['msg']}")
            if entry["type"] != "missing":  # Spec finds those itself, in words of its own
                for at in complaints(cause):
                    yield At((*entry["loc"], *at.path), str(at), at.hint)
    else:
        yield At((), str(error))


def collected(found: Iterator[At]) -> None:
    """Raise all that a check finds."""
    Mistakes(found).refuse()


class Placed(Protocol):
    """A file that knows where in it a key stands."""

    def place(self, keys: Sequence[object]) -> tuple[int, str]: ...


class Refusal(BadInput):
    """A file with mistakes: a line for each, as many as a person can use."""

    def __init__(self, lines: Iterable[str], more: int = 0, *, all_seen: bool = True) -> None:
        self.lines = tuple(dict.fromkeys(map(one_line, lines)))
        more += max(0, len(self.lines) - MOST_SHOWN)
        rest = [f"and {'' if all_seen else 'at least '}{more} more"] if more else []
        super().__init__("\n".join([*self.lines[:MOST_SHOWN], *rest]))


def refusal(file: Placed, error: ValueError) -> Refusal:
    """Every mistake of a file, in the order of its lines."""
    different = {(at.path, str(at)): at for at in complaints(error)}
    placed = [(*file.place(at.path), at) for at in different.values()]
    placed.sort(key=lambda entry: entry[0])
    lines = [
        ": ".join(filter(None, (place, dotted(at.path), at.told)))
        for _, place, at in placed[:MOST_SHOWN]
    ]
    return Refusal(lines, len(placed) - len(lines))


def dotted(path: Sequence[object]) -> str:
    return ".".join(shown(key).strip("'") for key in path)


def bad(message: str) -> BadInput:
    """A BadInput that is one printable line whatever the message quotes."""
    return BadInput(one_line(message))


def one_line(message: str) -> str:
    line = " ".join(message.encode("utf-8", "backslashreplace").decode().split())
    whole = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in whole)
