"""A clean Debian in a folder, with this checkout in it: where a set-up is tried for real."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.realtime.engine import LOCK
from tests.conftest import REPOSITORY

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CLONE = "/giveway"
# Mounts and processes of its own: when the command ends, both are gone. Its folder is made a mount
# because mnexec wants `/` to be one; the lock is the machine's, or two realtime runs would meet.
INSIDE = f"""
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
touch {LOCK} "$1{LOCK}"
mount --bind {LOCK} "$1{LOCK}"
root=$1 folder=$2
shift 2
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
"""


@contextmanager
def clean_debian(suite: str, place: Path) -> Iterator[Path]:
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: make image")
    root = place / suite
    root.mkdir()
    try:
        unpack = 'scripts/debian.sh "$0" | tar -x -C "$1"'
        subprocess.run(
            ["bash", "-o", "pipefail", "-ec", unpack, suite, root], cwd=REPOSITORY, check=True
        )
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # start no service
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        (root / "dev/ptmx").unlink(missing_ok=True)
        (root / "dev/ptmx").symlink_to("pts/ptmx")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        if Path(CERTIFICATES).exists():  # a machine behind a proxy has certificates of its own
            shutil.copy(CERTIFICATES, root / "ca.crt")
        copy_checkout(root / CLONE[1:])
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def copy_checkout(target: Path) -> None:
    files = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY
    )
    for name in files.decode().rstrip("\0").split("\0"):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, target / name)


def inside(
    root: Path, *words: str, folder: str = CLONE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command in the root, in a folder of it; nothing of this environment but what is named."""
    environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    if (root / "ca.crt").exists():
        environment["PIP_CERT"] = "/ca.crt"
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child",
         "sh", "-ec", INSIDE, "sh", str(root), folder, *words],
        env={**environment, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
