"""Archives on their way over a connection: sent and unpacked with a sign of life."""

import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

CHUNK = 1 << 18
TICK_S = 5.0
Say = Callable[[str], None]


class Damaged(Exception):
    """An archive that did not arrive whole, or that holds what it should not."""


class Counted:
    """A stream that says how much of it has passed, every five seconds."""

    def __init__(self, stream: IO[bytes], say: Say) -> None:
        self._stream = stream
        self._say = say
        self._passed = 0
        self._said_s = time.monotonic()

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._passed += len(data)
        if time.monotonic() - self._said_s > TICK_S:
            self._said_s = time.monotonic()
            self._say(f"{self._passed / 1e6:.0f} MB so far")
        return data


def send(channel: Any, stream: IO[bytes], say: Say) -> None:
    """Send all of a stream, and that it has ended."""
    counted = Counted(stream, say)
    while chunk := counted.read(CHUNK):
        channel.sendall(chunk)
    channel.shutdown_write()


def unpack(stream: IO[bytes], names: Sequence[str], folder: Path, say: Say) -> list[Path]:
    """Unpack the folders `names` of a .tar.gz into `folder`; returns where they are.

    All or nothing, and nothing that is there is touched: a name that is taken gets a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as temporary:
        arrived = Path(temporary)
        with damage():
            with tarfile.open(fileobj=Counted(stream, say), mode="r|gz") as tar:  # type: ignore[call-overload]
                for member in tar:
                    put(tar, member, arrived)
            while stream.read(CHUNK):  # what tar pads an archive with
                pass
        missing = [name for name in names if not (arrived / name).is_dir()]
        if missing:
            raise Damaged(f"{', '.join(missing)} did not arrive")
        return [settled(arrived / name, folder) for name in names]


@contextmanager
def damage() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError) as why:
        raise Damaged(f"the archive broke off ({why})") from None


def put(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member. Files and folders only, so that no link can lead out of the folder.

    By hand: Python 3.11.2, which Debian 12 has, knows no extraction filters.
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise Damaged(f"{member.name!r} is neither a file nor a folder inside of runs/")
    path = folder / name
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None  # it is a file
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file)


def settled(arrived: Path, folder: Path) -> Path:
    """Move a folder in under its name, or the first free one of name-2, name-3, …"""
    number = 1
    while True:
        path = folder / (arrived.name if number == 1 else f"{arrived.name}-{number}")
        try:
            path.mkdir()  # takes the name, or finds it taken
        except FileExistsError:
            number += 1
            continue
        return arrived.rename(path)  # an empty folder gives way
