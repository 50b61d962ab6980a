"""Starts a guest: one command inside the kernel whose clock is virtual.

The guest sees the host's file tree, read-only, and may write in one folder of it; confine.py holds
its kernel to that from outside. It never hangs its caller: what exceeds the limit is ended, and the
process that was running is named.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from basics.errors import CannotRun, RunFailed
from basics.files import writing
from basics.lines import Lines
from testbed import processes
from testbed.clean import SHARED_MEMORY, lodging_prefix
from testbed.virtual import confine

INIT = Path(__file__).with_name("init.sh")
READ_BYTE = 1 << 16  # a pipe holds no more
FAREWELL = "reboot: "  # what a kernel says last, however it went
CONFINED_BY = tuple(confine.MEANS)
# A guest that is silent for too long gets this share of that limit in processor time, or this
# multiple of it in real time, before it counts as stuck.
FAIR_SHARE, PATIENCE = 0.25, 10
FOLDER = "/run/giveway"  # where the guest finds the run folder, whatever its name outside
STATUS = ".guest-status"
# The guest's calendar starts here in every run: September 2001.
START_NS = 10**18


@dataclass(frozen=True)
class Guest:
    """One guest to boot. `memory_byte` is a limit; pages that nobody touches cost nothing."""

    kernel: Path
    folder: Path
    command: Sequence[str]
    memory_byte: int
    silence_s: float  # how long it may go without a word of progress
    run_id: str
    seed: int = 0  # of the kernel's own randomness
    core: int | None = None  # the one to run on

    def command_line(self) -> list[str]:
        """The kernel's words. The guest's randomness is made from them: no path, no host name."""
        return [
            str(self.kernel.absolute()),
            f"mem={self.memory_byte >> 20}M",
            # The boot folder is the working directory.
            "init=/proc/self/cwd/init",
            "uml_dir=/proc/self/cwd",
            "rootfstype=hostfs",
            "root=/dev/root",
            "ro",
            "time-travel=inf-cpu",
            f"time-travel-start={START_NS}",
            "seccomp=auto",
            "norandmaps",
            "con=null",
            "con0=null,fd:1",
            # /dev/tty1 is the way out for progress: standard input is its pipe's writing end.
            "con1=null,fd:0",
            "quiet",
            f"giveway.seed={self.seed}",
        ]


def boot(
    guest: Guest,
    console: Path,
    progress: Callable[[str], None] = lambda line: None,
    cancelled: threading.Event | None = None,
) -> None:
    """Run the guest's command to its end; RunFailed says what ended it, and its last words."""
    memory_in = memory_folder(guest.memory_byte)
    status = guest.folder.resolve() / STATUS
    with _lodging(guest, temporary_folder()) as place, _lodging(guest, memory_in) as memory:
        with writing(place):
            status.unlink(missing_ok=True)
            _furnish(place, guest)
        lodgings = Lodgings(place, memory, console)
        trouble = _watch(lodgings, guest, progress, cancelled or threading.Event())
        if trouble is None:
            code = status.read_text().strip() if status.exists() else ""
            status.unlink(missing_ok=True)
            trouble = {"0": None, "": "the guest ended without a result"}.get(
                code, f"the command in the guest ended with exit code {code}"
            )
    if trouble:
        raise RunFailed(f"{trouble}; {_last_words(console)}; all of it: {console}")


@dataclass(frozen=True)
class Lodgings:
    """Where a guest is while it runs, besides its own folder."""

    place: Path  # its boot folder
    memory: Path
    console: Path


@contextmanager
def _lodging(guest: Guest, parent: Path) -> Iterator[Path]:
    """A folder for a while, whose name tells testbed/clean.py whose it was."""
    with writing(parent):
        lent = tempfile.TemporaryDirectory(
            prefix=lodging_prefix(guest.run_id), dir=parent, ignore_cleanup_errors=True
        )
    with lent as name:
        yield Path(name).resolve()


def _last_words(console: Path) -> str:
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    telling = [line.strip() for line in lines if line.strip() and not line.startswith(FAREWELL)]
    return f"its console ends with `{telling[-1]}`" if telling else "its console is empty"


def _furnish(place: Path, guest: Guest) -> None:
    shutil.copy(INIT, place / "init")
    (place / "init").chmod(0o755)
    (place / "folder").symlink_to(guest.folder.resolve())
    words = {"status": f"{FOLDER}/{STATUS}", "python": sys.executable}
    lines = [f"{key}={shlex.quote(str(value))}" for key, value in words.items()]
    (place / "words").write_text("\n".join([*lines, f"set -- {shlex.join(guest.command)}", ""]))


def _watch(
    lodgings: Lodgings,
    guest: Guest,
    progress: Callable[[str], None],
    cancelled: threading.Event,
) -> str | None:
    """Start the kernel and wait for it; what went wrong, if anything did."""
    console = lodgings.console
    reading, writing_end = os.pipe()
    os.set_blocking(reading, False)
    # No locale, no Python settings: the guest's environment is its command's own business.
    plain = {"PATH": os.defpath, "TMPDIR": str(lodgings.memory)}
    with open(reading, "rb", buffering=0) as pipe:
        try:
            with writing(console), console.open("wb") as out:
                process = processes.popen(
                    confined(guest, lodgings),
                    guest.run_id,
                    base=plain,
                    cwd=lodgings.place,
                    start_new_session=True,
                    stdin=writing_end,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
        finally:
            os.close(writing_end)
        silence = Silence(process.pid)
        lines = Lines()

        def hear() -> bool:
            said = lines.feed(pipe.read(READ_BYTE) or b"")
            for line in said:
                progress(line.decode(errors="replace").strip())
            return bool(said)

        try:
            if guest.core is not None:
                # Kernel and processes hand over to each other thousands of times a second:
                # on one core that takes a third of the time.
                os.sched_setaffinity(process.pid, {guest.core})
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.1)
                if hear():
                    silence = Silence(process.pid)
                if cancelled.is_set():
                    raise KeyboardInterrupt
                if silence.lasts(guest.silence_s):
                    who = _who_runs(process, console)
                    return (
                        f"the guest's clock stood still for {silence.wall_s:.0f} s of real time "
                        f"and was ended; {who} was running, and never slept"
                    )
        finally:
            _end(process)
        hear()  # what it said last
    if process.returncode:
        return f"the guest's kernel ended with {_cause(process.returncode, lodgings.memory)}"
    return None


def confined(guest: Guest, lodgings: Lodgings) -> list[str]:
    """The command that starts its kernel, and lets it write in its folders only."""
    folders = [str(path) for path in (guest.folder.resolve(), lodgings.place, lodgings.memory)]
    launcher = [sys.executable, "-I", "-S", confine.__file__, ",".join(CONFINED_BY)]
    return [*launcher, str(len(folders)), *folders, *guest.command_line()]


def held_by() -> list[str]:
    """What would confine a guest of this user on this machine, in words."""
    probe = [sys.executable, "-I", "-S", confine.__file__, ",".join(CONFINED_BY), "0"]
    return processes.run(probe).splitlines()


class Silence:
    """Since a guest's last word. On a busy machine, a guest that gets no processor may be slow."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._since_s = time.monotonic()
        self._used_s: float | None = None  # when the limit was reached

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._since_s

    def lasts(self, limit_s: float) -> bool:
        """Whether it is over the limit, and has since had a fair time to come back."""
        if self.wall_s < limit_s:
            return False
        used = used_s(self._pid)
        if self._used_s is None:
            self._used_s = used
        return used - self._used_s > FAIR_SHARE * limit_s or self.wall_s > PATIENCE * limit_s


def used_s(pid: int) -> float:
    """Processor time of a guest: its kernel, and the processes that its programs run in."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        kernel = psutil.Process(pid)
        total += sum(kernel.cpu_times()[:4])  # with that of children that have ended
        for child in kernel.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(child.cpu_times()[:2])
    return total


def memory_folder(needed_byte: int) -> Path:
    """Where the guest's memory can be a file: in memory if there is room, else on the disk.

    A guest that fills the place up is killed by a signal that says nothing, so look before.
    """
    places = (SHARED_MEMORY, temporary_folder())
    for place in places:
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= needed_byte:
            return place
    raise CannotRun(
        f"neither {places[0]} nor {places[1]} has {needed_byte >> 20} MiB for the guest's memory: "
        "free some space, or set TMPDIR to a folder that has it"
    )


def temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise CannotRun(
            "there is no folder for temporary files: set TMPDIR to one that you can write to"
        ) from None


def _who_runs(process: subprocess.Popen[bytes], console: Path) -> str:
    """Make the guest's kernel panic: its last words name the process that was running."""
    process.send_signal(signal.SIGSEGV)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "its kernel"
    named = re.findall(
        r"PID: (\d+) Comm: (.+?) (?:Not t|T)ainted", console.read_text("utf-8", "replace")
    )
    return f"process {named[-1][0]} ({named[-1][1]})" if named else "an unknown process"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the kernel and the host processes in which the guest's programs run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _cause(code: int, memory: Path) -> str:
    if code == -signal.SIGBUS:
        return f"SIGBUS: {memory.parent}, where its memory is, may be full"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
