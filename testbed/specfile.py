"""Reading a YAML file that a person wrote: strictly, and with errors of one line each.

Nothing here knows what an experiment is. `read_mapping` gives plain data, `with_overrides` puts
`key.path=value` settings into it, and `complaint` turns the first of pydantic's errors into
"file: key: what was found; what is allowed".
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from testbed.errors import BadInput
from testbed.units import shown

LARGEST_FILE_BYTE = 1_000_000

Key = str | int


class At(ValueError):
    """A complaint about a key below the one being validated."""

    def __init__(self, path: Sequence[Key], message: str) -> None:
        super().__init__(message)
        self.path = tuple(path)


class _Loader(yaml.SafeLoader):
    """Plain YAML without its surprises: no repeated keys, no dates, no broken characters."""

    # Dates stay text: nothing here is a date, and PyYAML's own parser trips over bad ones.
    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML wants a class attribute)
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise yaml.constructor.ConstructorError(
                    None, None, "a character that is half of a pair", node.start_mark
                ) from None
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"the key {shown(key.value)} twice", key.start_mark
                        )
                    seen.add(key.value)
        return super().construct_mapping(node, deep)


def _parsed(text: str) -> Any:
    """The data in a YAML text. Raises ValueError that says the line."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{line}found {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line_number = text.count("\n", 0, error.position) + 1
        raise ValueError(f"line {line_number}: found a character that YAML forbids") from None
    except RecursionError:
        raise ValueError("found brackets nested too deeply") from None
    except Exception as error:  # PyYAML lets KeyError, AttributeError … out of bad `!!tag` values
        raise ValueError(f"found a value that does not fit its type ({error})") from None


def read_mapping(path: Path) -> dict[Any, Any]:
    """The keys and values of a YAML file."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTE + 1)
    except FileNotFoundError:
        raise bad(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise bad(f"{path}: found a directory; give an experiment file (.yaml)") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise bad(f"{path}: cannot read this file: {reason}") from None
    if len(raw) > LARGEST_FILE_BYTE:
        raise bad(f"{path}: found more than 1 MB; an experiment file is a page of YAML")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise bad(f"{path}: line {line}: found bytes that are not UTF-8 text") from None
    try:
        data = _parsed(text)
    except ValueError as error:
        raise bad(f"{path}: not valid YAML: {error}") from None
    if data is None:
        raise bad(f"{path}: the file is empty; see experiments/quickstart.yaml for an example")
    if not isinstance(data, dict):
        raise bad(f"{path}: found {shown(data)}; an experiment file is a mapping (key: value)")
    return data


def with_overrides(path: Path, data: dict[Any, Any], overrides: Sequence[str]) -> dict[Any, Any]:
    """The same data with `key.path=value` settings put in; `data` itself stays as it is."""
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise bad(f"--set {override}: write it as key=value, like duration=2 s")
        try:
            data = with_value(data, key.strip(), _parsed(text))
        except ValueError as error:
            raise bad(f"{path}: --set {override}: {error}") from None
    return data


def with_value(data: dict[Any, Any], key: str, value: Any) -> dict[Any, Any]:
    """The same data with the value at `key.path` replaced. Raises ValueError if there is no way."""
    changed: dict[Any, Any] = _replaced(data, key.split("."), value)
    return changed


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


def complaint(path: Path, error: ValidationError, overrides: Sequence[str]) -> BadInput:
    """The first thing wrong, as the one line that a person gets to see."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    keys = [str(key) for key in (*first["loc"], *(cause.path if isinstance(cause, At) else ()))]
    if isinstance(cause, ValueError):
        message = str(cause)
    else:
        message = f"found {shown(first['input'])}; {first['msg']}"
    dotted = ".".join(keys)
    set_here = [o for o in overrides if f"{dotted}.".startswith(f"{o.partition('=')[0].strip()}.")]
    origin = f" (from --set {set_here[-1]})" if set_here else ""
    return bad(f"{path}: {dotted}: {message}{origin}" if keys else f"{path}: {message}{origin}")


def bad(message: str) -> BadInput:
    """A BadInput that is one printable line whatever the message quotes."""
    line = " ".join(message.encode("utf-8", "backslashreplace").decode().split())
    return BadInput("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line))


def nearest(found: object, known: Iterable[object], most: int = 20) -> str:
    """ "; did you mean …?" and the known names, for the end of a complaint."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(found)[:100], names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}? Known: " if close else "; known: "
    listed = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    return hint + listed if names else "; none are known"
