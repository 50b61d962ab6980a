"""The files of this checkout, for `giveway on` to ship: what git tracks, and what it would."""

import hashlib
import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from basics.errors import BadInput, RunFailed
from testbed.processes import run

FAR_END = "scripts/until-hangup.sh"
# What a virtual environment depends on: checkouts that agree in these share one, far away.
SETUP = ("pyproject.toml", "requirements.txt", "scripts/setup.sh")


@dataclass(frozen=True)
class Checkout:
    root: Path
    files: tuple[str, ...]  # sorted, relative to root
    digest: str  # of names, kinds and contents: the same files are the same checkout
    setup_digest: str

    def packed(self) -> bytes:
        """All files as a .tar.gz."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
            for name in self.files:
                tar.add(self.root / name, name, recursive=False)
        return buffer.getvalue()

    def inside(self, path: Path) -> str:
        """The name that a shipped file has in the checkout."""
        if not path.exists():
            raise BadInput(f"{path}: no such file")
        full = path.parent.resolve() / path.name
        if not full.is_relative_to(self.root):
            raise BadInput(f"{path}: not in {self.root}, so it is not shipped: copy it there")
        name = full.relative_to(self.root).as_posix()
        if name not in self.files:
            raise BadInput(f"{path}: git ignores it, so it is not shipped: copy it elsewhere")
        return name


def here(folder: Path) -> Checkout:
    """The checkout that a folder is in."""
    try:
        top = run(["git", "-C", str(folder), "rev-parse", "--show-toplevel"])
    except RunFailed as why:
        raise BadInput(
            f"{folder}: not a git checkout, so what to ship is not known "
            f"(clone Giveway with git): {why}"
        ) from None
    root = Path(top.removesuffix("\n"))
    listed = run(["git", "-C", str(root), "ls-files", "-coz", "--exclude-standard"])
    # A file that was deleted is still listed, a submodule is a folder: neither is shipped.
    names = {name for name in listed.split("\0") if name and is_file(root / name)}
    if FAR_END not in names:
        raise BadInput(f"{root}: not a checkout of Giveway ({FAR_END} is missing)")
    files = tuple(sorted(names))
    return Checkout(root, files, digest(root, files), digest(root, names.intersection(SETUP)))


def is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def digest(root: Path, names: Iterable[str]) -> str:
    """12 hex digits; every part goes in with its length, so that none can pass for another."""
    total = hashlib.sha256()
    for name in sorted(names):
        path = root / name
        if path.is_symlink():
            kind, content = b"link", str(path.readlink()).encode()
        else:
            runnable = path.stat().st_mode & 0o100
            kind, content = b"program" if runnable else b"file", path.read_bytes()
        for part in (name.encode(), kind, content):
            total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()[:12]
