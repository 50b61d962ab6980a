"""What the hosts of a run know by name: each other, and nobody else.

Libraries look names up where one would not expect it (torch asks who 10.0.0.1 is, for its log).
On an emulated network the machine's own name server does not answer, and every such question
costs seconds; what a run does would also depend on the machine's files. So the tasks of a run see
an /etc/hosts of its own, and an /etc/resolv.conf that names no server: a question that the first
does not answer fails at once.
"""

import ctypes
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from topologies.routes import addresses

HOSTS, RESOLVER = "hosts", "resolv.conf"
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


def write(folder: Path, hosts: Sequence[str]) -> None:
    known = zip(addresses(range(len(hosts))), hosts, strict=True)
    lines = ["127.0.0.1 localhost", *(f"{IPv4Address(int(at))} {name}" for at, name in known)]
    (folder / HOSTS).write_text("".join(f"{line}\n" for line in lines))
    (folder / RESOLVER).write_text("# This network has no name server.\n")


def places(folder: Path) -> dict[Path, str]:
    """The files, and where each of them is to be seen."""
    return {folder / name: f"/etc/{name}" for name in (HOSTS, RESOLVER)}


def adopt(folder: Path) -> None:
    """From here on, this process and all that it forks see these files, and no other process does.

    A file that the machine does not have stays away.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    checked(libc.unshare(CLONE_NEWNS), "mounts of their own")
    checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    for source, target in places(folder).items():
        if Path(target).exists():
            mounted = libc.mount(str(source).encode(), target.encode(), None, MS_BIND, None)
            checked(mounted, f"a {target} of their own")


def checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"the tasks cannot have {what}")
