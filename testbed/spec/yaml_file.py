"""A YAML file that a person wrote: read strictly, with every value's place in it.

Nothing here knows what an experiment is. `read` gives a `Document`; `with_overrides` puts
`key.path=value` settings into it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from basics.files import open_regular
from basics.hints import alike, nearest
from basics.home import HOME
from basics.units import shown
from testbed.spec.mistakes import Refusal, bad
from testbed.spec.yaml_nodes import Node, Unreadable, composed

LARGEST_FILE_BYTE = 1_000_000
LONGEST_QUOTE = 80  # characters of an override in a complaint


@dataclass(frozen=True)
class PutValue:
    """A value put into a document after it was read, from its own `line` or by `who`, outside."""

    keys: tuple[str, ...]
    line: int = 0
    who: str = ""


@dataclass(frozen=True)
class Document:
    """The data of a file, with what was set in it since it was read."""

    path: Path
    data: dict[Any, Any]
    root: Node
    settings: tuple[PutValue, ...] = ()  # of two for one key the last one holds

    def line(self, keys: Sequence[object]) -> int:
        """Where a key stands in the file, or the nearest thing around it."""
        node, line = self.root, self.root.line
        for key in keys:
            if str(key) not in node.below:
                break
            line, node = node.below[str(key)]
        return line

    def place(self, keys: Sequence[object]) -> tuple[int, str]:
        """Where to look for a mistake at a key: a number to sort by, and the words for people."""
        origin = self.origin(keys)
        if origin.who:
            return LARGEST_FILE_BYTE, f"{self.path}: {origin.who}"
        inside = [
            f": with {setting.who}"  # what was set is a part of what is wrong
            for setting in self.settings
            if keys and setting.who and setting.keys[: len(keys)] == origin.keys
        ]
        return origin.line, f"{self.path}:{origin.line}{''.join(inside[-1:])}"

    def origin(self, keys: Sequence[object]) -> PutValue:
        """Who set a value: one of the settings, else the line of the file."""
        names = tuple(map(str, keys))
        for setting in reversed(self.settings):
            if names[: len(setting.keys)] == setting.keys:
                return replace(setting, keys=names)
        return PutValue(names, self.line(keys))

    def having(self, setting: PutValue, value: Any) -> "Document":
        """The same with another value at these keys. Raises ValueError if there is no way."""
        data = _replaced(self.data, setting.keys, value)
        return replace(self, data=data, settings=(*self.settings, setting))


def read(path: Path) -> Document:
    """The keys and values of a YAML file. Raises BadInput, in one line."""
    raw = _content(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise bad(f"{path}:{line}: found bytes that are not UTF-8 text; save it as UTF-8") from None
    try:
        root = composed(text)
    except Unreadable as error:
        raise bad(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from None
    if root is None or root.data is None:
        raise bad(f"{path}: the file is empty; see experiments/quickstart.yaml for an example")
    if not isinstance(root.data, dict):
        raise bad(f"{path}: found {shown(root.data)}; an experiment file is a mapping (key: value)")
    return Document(path, root.data, root)


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST_FILE_BYTE + 1) or b""
    except FileNotFoundError:
        raise bad(f"{path}: there is no such file{_meant(path)}") from None
    except OSError as error:
        why = error.strerror or error
        raise bad(f"{path}: cannot read this: {why}; give an experiment file (.yaml)") from None
    if len(raw) > LARGEST_FILE_BYTE:
        raise bad(f"{path}: found more than 1 MB; an experiment file is a page of YAML")
    return raw


def with_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """The same document with `key.path=value` settings put in."""
    wrong = []
    for override in overrides:
        key, equals, text = override.partition("=")
        short = override if len(override) <= LONGEST_QUOTE else f"{override[:LONGEST_QUOTE]}…"
        if not equals or not key.strip():
            wrong.append(f"--set {short}: write it as key=value, like duration=2 s")
            continue
        try:
            node = composed(text)
            value = None if node is None else node.data
            setting = PutValue(tuple(key.strip().split(".")), who=f"--set {short}")
            document = document.having(setting, value)
        except ValueError as error:
            wrong.append(f"{document.path}: --set {short}: {error}")
    if wrong:
        raise Refusal(wrong)
    return document


def _replaced(node: Any, keys: Sequence[str], value: Any, done: str = "") -> Any:
    """A copy of `node` (of the containers on the way only) with one value replaced."""
    if not keys:
        return value
    key, *rest = keys
    here = done or "the file"
    if isinstance(node, list):
        if not re.fullmatch("[0-9]{1,6}", key) or int(key) >= len(node):
            known = f"indexes 0 to {len(node) - 1}" if node else "no entries"
            raise ValueError(f"unknown path: {here} is a list with {known}; found {shown(key)}")
        changed: Any = list(node)
        changed[int(key)] = _replaced(node[int(key)], rest, value, f"{done}.{key}".lstrip("."))
        return changed
    if not isinstance(node, dict):
        raise ValueError(f"unknown path: {here} is {shown(node)} and has no key {shown(key)}")
    if rest and key not in node:
        raise ValueError(f"unknown path: {here} has no key {shown(key)}{nearest(key, node)}")
    return {**node, key: _replaced(node.get(key), rest, value, f"{done}.{key}".lstrip("."))}


def _meant(path: Path) -> str:
    """Those of the experiments that ship which somebody may have mistyped."""
    names = [one.stem for one in (HOME / "experiments").glob("*.yaml")]
    close = alike(path.stem, names, cutoff=0.7)
    return (
        f"; did you mean {' or '.join(close)}? `giveway list experiments` has all" if close else ""
    )
