"""What runs in the guest: one run, played exactly as on a real kernel, by the same code.

Started by engine.py with the run folder. Leaves the journals of the tasks there and, as the last
thing, `performance.json`; everything that needs more of Python happens outside.
"""

import json
import os
import resource
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from basics.errors import GivewayError
from testbed.engine import Run, Setting, Wiring, topology_of
from testbed.live.limits import files_of
from testbed.live.play import perform
from testbed.run_folder import RunFolder
from testbed.spec import load

ORDER, RESULT = "order.json", "performance.json"
PROGRESS = "/dev/tty1"  # its other end is the engine's pipe
TCP_MEMORY = Path("/proc/sys/net/ipv4/tcp_mem")
FAILED = "failed: "  # a line there that begins so is the last


def main(path: Path) -> None:
    """Play, or leave a line that says why not; what nobody foresaw is on the console besides."""
    try:
        play(path)
    except Exception as error:
        text = str(error)
        if not isinstance(error, GivewayError):
            traceback.print_exc()
            text = f"unforeseen, in the guest: {type(error).__name__}: {error}"
        with open(PROGRESS, "w") as line:  # not in a file: the disk may be what is wrong
            line.write(f"{FAILED}{(text.splitlines() or [''])[0]}\n")
        raise SystemExit(1) from None


def play(path: Path) -> None:
    # Whoever wakes first runs first, here and in all that is started from here. The ordinary
    # scheduler would go by how long each has run so far, which no two start-ups agree on.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    order: dict[str, Any] = json.loads((path / ORDER).read_text())
    experiment = load(path / "experiment.yaml")
    [arm] = [arm for arm in experiment.arms if arm.label == order["label"]]
    allow_files(files_of(experiment))
    captures = tuple(order["captures"])
    run = Run(experiment, arm.choice, order["seed"], "guest", arm.placement, captures)
    setting = Setting(topology_of(experiment), Wiring(**order["wiring"]))
    if setting.wiring.window_byte is not None:
        allow_windows()
    with open(PROGRESS, "w", buffering=1) as line:

        def on_time(time_ns: int) -> None:
            line.write(f"{time_ns}\n")

        performance = perform(run, setting, RunFolder(path), on_time, measure_link=False)
    (path / RESULT).write_text(json.dumps(asdict(performance)))


def allow_files(needed: int) -> None:
    """A fresh kernel allows 1,024 open files to a process; the guest's root may change that."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed > allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, most)))


def allow_windows() -> None:
    """What was asked for is not cut short when all sockets together have a lot of it.

    The kernel's own bound is a sixteenth of its memory, and engine.py has made room.
    """
    pages = os.sysconf("SC_PHYS_PAGES")
    TCP_MEMORY.write_text(f"{pages} {pages} {pages}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
