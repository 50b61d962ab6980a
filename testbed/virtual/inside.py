"""What runs in the guest: one run, played exactly as on a real kernel, by the same code.

Started by engine.py with the run folder. Leaves the journals of the tasks there and, as the last
thing, `performance.json`; everything that needs more of Python happens outside.
"""

import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testbed.engine import Run, Setting, Wiring, topology_of
from testbed.folder import RunFolder
from testbed.limits import files_of
from testbed.live import perform
from testbed.spec import load

ORDER, RESULT = "order.json", "performance.json"
PROGRESS = "/dev/tty1"  # its other end is the engine's pipe


def main(path: Path) -> None:
    # Whoever wakes first runs first, here and in all that is started from here. The ordinary
    # scheduler would go by how long each has run so far, which no two start-ups agree on.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    order: dict[str, Any] = json.loads((path / ORDER).read_text())
    experiment = load(path / "experiment.yaml")
    [choice] = [choice for choice in experiment.policies if choice.label == order["label"]]
    allow_files(files_of(experiment))
    run = Run(experiment, choice, order["seed"], run_id="guest")
    setting = Setting(topology_of(experiment), Wiring(**order["wiring"]))
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
