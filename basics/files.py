"""Files written whole or not at all (beside, then renamed), and read only if they are files."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from basics.errors import RunFailed

SMALL_BYTE = 1 << 14
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path) -> BinaryIO:
    """A file to read. Raises OSError, in words for people, where reading might never end."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)  # before opening: that alone makes some devices act
    except ValueError:  # a NUL in the name
        raise OSError(errno.EINVAL, "no file can have this name") from None
    if kind in KINDS:
        raise OSError(errno.EINVAL, f"found {KINDS[kind]}, not a file")
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into a message that says where."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path) from error
        raise RunFailed(f"cannot write {path}: {error.strerror or error}") from error


def disk_full(path: Path) -> RunFailed:
    return RunFailed(f"the disk is full: cannot write {path}; free some space")


def is_full(path: Path) -> bool:
    """Whether a disk has no room for even a small file."""
    return os.statvfs(path).f_bfree * os.statvfs(path).f_frsize < SMALL_BYTE


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when it is complete; a failure leaves nothing."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            yield beside
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def write_whole(path: Path, text: str) -> Path:
    """A reader sees the old file or the new one, never half."""
    with whole(path) as beside, beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1) + "\n")
