"""Checks the built kernel: does its clock jump, is a 10 Gbit/s link exact, is it the same twice?"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from basics import command
from basics.errors import CannotRun
from basics.home import how
from testbed.virtual import measure
from testbed.virtual.build import Kernel, find
from testbed.virtual.guest import FOLDER, Guest, boot

# What the guest's own reading of the clock adds to a duration.
CLOCK_NS = 2
MEMORY_BYTE = 512 * 2**20
IDLE_WALL_S = 2.0
SLEEPS = 3  # the best counts: another process in the way is not the kernel's fault


def check(kernel: Kernel) -> list[str]:
    """One line for each thing that was measured; CannotRun for the first that is wrong."""
    with tempfile.TemporaryDirectory(prefix="giveway-check-") as name:
        folder = Path(name)
        slept_s = min(_sleep(kernel, folder) for _ in range(SLEEPS))
        once, twice = (_measure(kernel, folder) for _ in range(2))
    limit = measure.RATE * measure.PAYLOAD_BYTE / measure.FRAME_BYTE
    reached = once["goodput_bit_s"] / limit
    delay_ns = once["rtt_ns"] - 2 * measure.DELAY_NS
    _demand(slept_s < IDLE_WALL_S, f"1,000 virtual seconds of sleep took {slept_s:.1f} s")
    _demand(0 <= delay_ns <= CLOCK_NS, f"an idle round trip is {delay_ns} ns off its delays")
    _demand(abs(reached - 1) < 0.005, f"a bulk flow reached {reached:.2%} of what headers leave")
    _demand(once == twice, f"two runs differ: {once} and {twice}")
    return [
        f"boots, and sleeps 1,000 virtual seconds, in {slept_s:.2f} s",
        f"idle round trip of 2 x 10 us: {once['rtt_ns']:.0f} ns",
        f"bulk flow at 10 Gbit/s: {once['goodput_bit_s'] / 1e9:.4f} Gbit/s, {reached:.3%} of "
        "what headers leave",
        f"a second run: the same to the nanosecond (last byte at {once['last_ns']:.0f} ns)",
    ]


def _sleep(kernel: Kernel, folder: Path) -> float:
    """The wall-clock seconds of 1,000 virtual ones."""
    started = time.monotonic()
    _boot(kernel, folder, ["sleep", "1000"])
    return time.monotonic() - started


def _measure(kernel: Kernel, folder: Path) -> dict[str, float]:
    result = folder / "result.json"
    _boot(kernel, folder, [sys.executable, "-I", measure.__file__, f"{FOLDER}/{result.name}"])
    measured: dict[str, float] = json.loads(result.read_text())
    return measured


def _boot(kernel: Kernel, folder: Path, command: list[str]) -> None:
    core = min(os.sched_getaffinity(0))
    guest = Guest(kernel.program, folder, command, MEMORY_BYTE, 60, "check", core=core)
    boot(guest, folder / "console.log")


def _demand(holds: bool, trouble: str) -> None:
    if not holds:
        raise CannotRun(f"the virtual-clock kernel is not exact: {trouble}; build it again")


def main() -> None:
    kernel = find()
    if kernel is None:
        raise CannotRun(f"no virtual-clock kernel; build it: {how('make virtual')}")
    for line in check(kernel):
        print(line)


if __name__ == "__main__":
    command.run(main)
