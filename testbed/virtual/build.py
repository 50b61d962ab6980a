"""Builds, once for a machine, the Linux kernel whose clock is virtual.

The kernel is User-Mode Linux: an ordinary program, built and run without root. What stays in
the cache is that program and a small JSON file. A half build is never taken for a whole one.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from basics import command
from basics.errors import CannotRun
from basics.files import digest_of
from testbed.cache import demand_own, made
from testbed.cache import folder as cache_folder
from testbed.virtual.edits import EDITS
from testbed.virtual.source import HINT, OLDEST, Log, Say, numbers, obtain, plain

DIGEST = "linux.sha256"
FRAGMENT = Path(__file__).with_name("kernel.config")
# Raised by hand when anything but EDITS and the fragment changes the kernel.
RECIPE = 1

# Only for the progress line: what this fragment compiles of Linux 7.2.
ABOUT_FILES = 710

# Command to Debian package.
NEEDED = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel: `program` is what is started."""

    program: Path
    version: str
    config_digest: str
    built_s: float


def find() -> Kernel | None:
    """The newest kernel in the cache that this recipe built on this kind of machine."""
    records = cache_folder().glob("kernel-*/kernel.json")
    found = [kernel for record in records if (kernel := _read(record))]
    return max(found, key=lambda kernel: numbers(kernel.version), default=None)


def _read(record: Path) -> Kernel | None:
    """The kernel that a record is of, if both are whole; what is damaged is not there."""
    try:
        kernel = Kernel(record.with_name("linux"), **json.loads(record.read_text()))
        named = record.parent.name == _name(kernel.version)
        status = kernel.program.stat()
    except (OSError, ValueError, TypeError):
        return None
    if not named or not os.access(kernel.program, os.X_OK):
        return None
    demand_own(kernel.program)
    return kernel if _is_whole(kernel.program, status.st_mtime_ns, status.st_size) else None


@cache
def _is_whole(program: Path, mtime_ns: int, size_byte: int) -> bool:
    """Whether a program is what was built; asked once, as long as it does not look changed."""
    try:
        built = program.with_name(DIGEST).read_text().strip()
    except OSError:  # built before digests were written down
        return size_byte > 0
    return digest_of(program) == built


def build(say: Say) -> Kernel:
    """Build the kernel unless the cache has it; raises CannotRun with what to do."""
    place = made()
    with _only_one(place, say):
        present = find()
        if present:
            return present
        _check_tools()
        for left in place.glob("building-*"):
            shutil.rmtree(left)
        # The kernel's Makefile refuses a folder with a space or a colon in its name.
        work = None if re.search(r"[\s:]", str(place)) else place
        with tempfile.TemporaryDirectory(prefix="building-", dir=work) as folder:
            return _build(Path(folder).resolve(), place, say)


def _build(work: Path, place: Path, say: Say) -> Kernel:
    started = time.monotonic()
    log = Log(place / "kernel-build.log")
    source = obtain(work, log, say)
    output = work / "output"
    output.mkdir()
    version = _version(source, output)
    if numbers(version)[:2] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise CannotRun(
            f"{source}: Linux {version} is too old, {oldest} or newer is needed; {HINT}"
        )
    say(f"configuring Linux {version}")
    _edit(source)
    fragment = shutil.copy(FRAGMENT, work / "fragment")
    log.run(
        ["make", "-C", source, f"O={output}", "ARCH=um", f"KCONFIG_ALLCONFIG={fragment}",
         "allnoconfig"],
        "the kernel cannot be configured",
    )  # fmt: skip
    _check_config(output / ".config", version)
    _compile(source, output, version, log, say)
    done = Path(tempfile.mkdtemp(prefix="building-", dir=place))
    done.chmod(0o755)
    log.run(["strip", "-o", done / "linux", output / "linux"], "the kernel cannot be stripped")
    kernel = Kernel(
        program=place / _name(version) / "linux",
        version=version,
        config_digest=hashlib.sha256((output / ".config").read_bytes()).hexdigest(),
        built_s=round(time.monotonic() - started, 1),
    )
    facts = asdict(kernel)
    del facts["program"]
    (done / DIGEST).write_text(digest_of(done / "linux") + "\n")
    (done / "kernel.json").write_text(json.dumps(facts, indent=2) + "\n")
    # A kernel.json is there only with its program: both arrive by this one rename.
    shutil.rmtree(kernel.program.parent, ignore_errors=True)  # a damaged one
    done.rename(kernel.program.parent)
    return kernel


def _name(version: str) -> str:
    words = [version, FRAGMENT.read_text(), repr(EDITS), str(RECIPE), platform.machine()]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()
    return f"kernel-{version}-{digest[:12]}"


@contextmanager
def _only_one(place: Path, say: Say) -> Iterator[None]:
    """Hold the cache's lock; it falls with the process, however that ends."""
    with (place / "kernel.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building the kernel: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_tools() -> None:
    missing = [package for command, package in NEEDED.items() if shutil.which(command) is None]
    if "gcc" not in missing:
        probe = subprocess.run(
            ["gcc", "-fsyntax-only", "-xc", "-"], input=b"#include <stdio.h>", capture_output=True
        )
        if probe.returncode:
            missing.append("libc6-dev")
    if missing:
        raise CannotRun(
            "the virtual-clock kernel cannot be built: commands are missing; "
            f"as root: apt-get install {' '.join(missing)}"
        )


def _version(source: Path, output: Path) -> str:
    command = ["make", "-s", "-C", str(source), f"O={output}", "ARCH=um", "kernelversion"]
    asked = subprocess.run(command, capture_output=True, text=True, env=plain())
    words = asked.stdout.split()
    if asked.returncode or not words:
        last = (asked.stderr.strip().splitlines() or ["make gave no version"])[-1]
        raise CannotRun(f"{source}: not a kernel source tree: {last}; {HINT}")
    return words[-1]


def _edit(source: Path) -> None:
    for name, old, new in EDITS:
        path = source / name
        text = path.read_text() if old else ""
        if path.exists() != bool(old) or text.count(old) != 1:
            raise CannotRun(
                f"{path}: {old.strip()!r} is not there once: this recipe is too old; {HINT}"
            )
        path.write_text(text.replace(old, new))


def _check_config(config: Path, version: str) -> None:
    """No setting is silently ignored: every line of the fragment is in the configuration."""
    taken = set(config.read_text().splitlines())
    asked = [line for line in FRAGMENT.read_text().splitlines() if line.startswith("CONFIG_")]
    ignored = [line for line in asked if line not in taken]
    if ignored:
        raise CannotRun(
            f"{FRAGMENT}: Linux {version} does not take {', '.join(ignored)}; "
            "use another kernel source, or change these lines"
        )


def _compile(source: Path, output: Path, version: str, log: Log, say: Say) -> None:
    jobs = len(os.sched_getaffinity(0))
    # The same source gives the same program, whoever builds it, where and when.
    stamp = ["KBUILD_BUILD_USER=giveway", "KBUILD_BUILD_HOST=giveway",
             "KBUILD_BUILD_VERSION=1", "KBUILD_BUILD_TIMESTAMP=2000-01-01"]  # fmt: skip
    command = ["make", "-C", str(source), f"O={output}", "ARCH=um", f"-j{jobs}", *stamp, "linux"]
    started = time.monotonic()
    compiled = 0
    with log.path.open("a") as file, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env=plain(),
    ) as make:  # fmt: skip
        assert make.stdout is not None
        for line in make.stdout:
            file.write(line)
            if re.match(r" +(HOST)?CC ", line):
                compiled += 1
                spent = time.monotonic() - started
                total = max(ABOUT_FILES, compiled)
                left = spent / compiled * (total - compiled)
                say(f"compiling Linux {version}: {compiled} of {total} files, {left:.0f} s left")
    if make.returncode:
        raise log.error("the kernel does not compile")


def main() -> int:
    """`python -m testbed.virtual.build`: one line that renews itself, or plain lines."""
    live = sys.stderr.isatty()
    last = 0.0

    def say(line: str) -> None:
        nonlocal last
        now = time.monotonic()
        if live:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif now - last > 10 or not line.startswith("compiling"):
            print(line, file=sys.stderr, flush=True)
            last = now

    try:
        kernel = build(say)
    except CannotRun:
        if live:
            print(file=sys.stderr)  # the line that renews itself stays
        raise
    print(f"{chr(10) if live else ''}Linux {kernel.version}: {kernel.program}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    command.run(main)
