"""Giveway's cache: the one place outside the repository that it writes to, and takes programs from.

A kernel is started from it and compiled code is loaded from it, so it must be a place where nobody
else can put something. scripts/cache.sh is the same rule for shell scripts.
"""

import grp
import json
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from basics.errors import CannotRun

VARIABLE = "GIVEWAY_CACHE"
INSTEAD = f"set {VARIABLE} to a folder of your own"
MOST_LINKS = 40  # as many as the kernel follows


def folder() -> Path:
    """Where the cache is; whether there is one yet is another question."""
    asked = os.environ.get(VARIABLE)
    try:
        place = Path(asked).expanduser() if asked else Path.home() / ".cache" / "giveway"
    except RuntimeError:  # no such user, or a user without a home
        raise CannotRun(f"{asked or '~'}: there is no such home folder: {INSTEAD}") from None
    place = place.absolute()
    demand_own(place)
    return place


def made() -> Path:
    """The cache, to write into."""
    place = folder()
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"{place} cannot be made: {error.strerror}: {INSTEAD}") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise CannotRun(f"{place} cannot be written to: {INSTEAD}")
    demand_own(place)
    return place


def read_json(name: str) -> dict[str, Any]:
    """What a JSON file in the cache holds; a damaged one is no file."""
    try:
        content = json.loads((folder() / name).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def demand_own(path: Path) -> None:
    """Refuse a path if anybody but root and us could have put there what is there.

    That is whoever owns a folder or a link on the way, or may write to one; in a sticky folder, as
    /tmp is, people cannot touch each other's files. What is not there yet is nobody's.
    """
    try:
        for step in _steps(path):
            status = step.lstat()
            if status.st_uid not in (0, os.geteuid()):
                raise CannotRun(
                    f"{path}: {step} belongs to {_name(status.st_uid)}, who could have put there "
                    f"whatever would be started from it: {INSTEAD}"
                )
            if _others_write(status) and not status.st_mode & stat.S_ISVTX:
                raise _theirs(path, step)
        if _others_write(path.stat()):  # sticky or not: this is where things would be put
            raise _theirs(path, path.resolve())
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotRun(f"{path} cannot be looked at: {error.strerror}: {INSTEAD}") from None


def _theirs(path: Path, step: Path) -> CannotRun:
    return CannotRun(
        f"{path}: others may write to {step}, so what would be started from it may be theirs: "
        f"look at what is there, then `chmod go-w {step}`, or {INSTEAD}"
    )


def _steps(path: Path) -> Iterator[Path]:
    """Every folder and link that the kernel passes on its way to a path, and what is there."""
    at, links = Path(path.anchor), 0
    yield at
    left = list(reversed(path.parts[1:]))
    while left:
        part = left.pop()
        if part == os.pardir:
            at = at.parent
            continue
        yield at / part
        if not (at / part).is_symlink():
            at /= part
            continue
        links += 1
        if links > MOST_LINKS:
            raise CannotRun(f"{path}: its links lead in a circle: {INSTEAD}")
        target = (at / part).readlink()
        at = Path(target.anchor) if target.is_absolute() else at
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _others_write(status: os.stat_result) -> bool:
    if stat.S_ISLNK(status.st_mode):
        return False
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _only_ours(status.st_gid)


def _only_ours(group: int) -> bool:
    """Whether a group is a user's private one: of the user's name, with nobody else in it."""
    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == me and set(entry.gr_mem) <= {me}


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
