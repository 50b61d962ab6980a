"""What every task does besides its work: it shows that it lives, and says how late it was."""

import time
from collections.abc import Sequence

import numpy as np

from workloads.control import Control
from workloads.loop import READ, Loop

BEAT_REAL_NS = 500_000_000
# Where the clock is exact and hours may pass in which nothing happens: nobody is ever late.
RARE_BEAT_NS = 3_000_000_000
RARE_BEATS = 200  # of a task, over a run that is longer than that many of these


def heartbeat(loop: Loop, control: Control, real_ns: int = BEAT_REAL_NS) -> None:
    """Say `beat` twice a second of real time; end if the controller goes away or says `over`."""
    every_ns = int(real_ns / loop.clock.dilation)

    def beat() -> None:
        control.say("beat", time_ns=loop.clock.now_ns())
        loop.at(loop.clock.now_ns() + every_ns, beat)

    def hear(events: int) -> None:
        if control.hear().get("over"):
            loop.stop()

    loop.watch(control.fileno(), READ, hear)
    loop.at(0, beat)


def sleep_until(monotonic_ns: int) -> None:
    """Sleep until an instant of the monotonic clock; not at all if it has passed."""
    time.sleep(max(0, monotonic_ns - time.monotonic_ns()) / 1e9)


def lateness(late_ns: Sequence[int]) -> list[int]:
    """Lateness as 101 percentiles: enough to merge tasks, small enough for one message."""
    if not late_ns:
        return []
    return [int(value) for value in np.percentile(late_ns, np.arange(101))]
