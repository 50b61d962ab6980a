"""Where results are or are to go: what cannot be used is refused before anything is done."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from basics.errors import BadInput
from testbed.spec.mistakes import bad

ROOM = 256  # characters of the path for what is written inside: POLICY/seed-N/…


def demand_folder(out: Path, option: str = "--out") -> None:
    """Refuse a folder that cannot be made, or nothing can be written in."""
    with _said(option, out):
        place = _existing(out.absolute())
        if not place.is_dir():
            raise BadInput(f"{place} is not a folder")
        _demand_short(out.absolute(), place)
        os.rmdir(tempfile.mkdtemp(prefix=".giveway-", dir=place))


def demand_file(option: str, path: Path, suffix: str) -> None:
    """Refuse a file that cannot be written; nothing is touched."""
    with _said(option, path):
        if path.suffix != suffix or path.is_dir() or not path.absolute().parent.is_dir():
            raise BadInput(f"it must be a {suffix} file in a folder that exists")
        _demand_short(path.absolute(), path.absolute().parent)
        os.rmdir(tempfile.mkdtemp(prefix=".giveway-", dir=path.absolute().parent))


def demand_results(folder: Path) -> None:
    """Refuse what cannot be the folder of a run, whatever it is."""
    try:
        there = folder.is_dir()
    except (OSError, ValueError):
        there = False
    if not there:
        raise bad(f"{_short(folder)}: not a folder; give the one that `giveway run --out` wrote")


def _existing(path: Path) -> Path:
    """The path, or the nearest one above it that is there."""
    for place in (path, *path.parents):
        try:
            place.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            continue
        return place
    return Path("/")


def _demand_short(path: Path, there: Path) -> None:
    longest = os.pathconf(there, "PC_NAME_MAX")
    names = [name for name in path.parts if len(os.fsencode(name)) > longest]
    if names or len(os.fsencode(path)) + ROOM > os.pathconf(there, "PC_PATH_MAX"):
        raise BadInput(f"the name is too long; {longest} characters are the most")


def _short(path: Path) -> str:
    return str(path) if len(str(path)) <= 100 else f"{str(path)[:100]}…"


@contextmanager
def _said(option: str, path: Path) -> Iterator[None]:
    """One line that names the option, whatever is wrong with the place."""
    shown = _short(path)
    try:
        yield
    except BadInput as error:
        raise bad(f"{option} {shown}: {error}") from None
    except OSError as error:
        raise bad(f"{option} {shown}: cannot write there: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise bad(f"{option} {shown}: no file can have this name") from None
