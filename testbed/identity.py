"""What decides a result besides the experiment: the versions and the code that played it.

Machines that share a sweep must agree in it; each says its own, and the first difference is named.
"""

import hashlib
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from basics.home import HOME
from testbed import __version__, own_files

CODE = ("basics", "topologies", "policies", "workloads", "analysis", "testbed")
KINDS = (".py", ".csv", ".sh", ".config", ".json")
PACKAGES = ("numpy", "pandas", "pyarrow", "numba")

Identity = Mapping[str, str]


@cache
def here() -> Identity:
    """The versions of this process, and a digest of the code that it runs."""
    python = ".".join(platform.python_version_tuple()[:2])
    packages = {name: metadata.version(name) for name in PACKAGES}
    return {"giveway": __version__, "python": python, **packages, "code": code_digest()}


def code_digest() -> str:
    """Of every file that can change a result, the user's own policies and topologies included."""
    total = hashlib.sha256()
    for name, path in _files():
        content = path.read_bytes()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def _files() -> Iterator[tuple[str, Path]]:
    places = [(name, HOME / name) for name in CODE]
    places += [(name, Path(folder)) for name, folder in own_files.named().items()]
    for name, place in places:
        for path in sorted(place.rglob("*")):
            inside = path.relative_to(place).as_posix()
            if path.suffix in KINDS and path.is_file() and not inside.startswith("."):
                yield f"{name}/{inside}", path


def difference(mine: Identity, other: Mapping[str, object]) -> str | None:
    """The first thing in which another one differs, in words; None if it is the same."""
    for what, own in mine.items():
        found = other.get(what)
        if found != own:
            return f"it has {what} {found or 'unknown'}, not {own}"
    return None
