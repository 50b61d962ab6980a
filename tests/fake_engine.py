"""An engine that plays nothing: records follow from the experiment at once. For tests of sweeps.

GIVEWAY_FAKE_SLEEP_S is how long a run takes; GIVEWAY_FAKE_FAIL is the label of a policy that fails.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from basics.errors import RunFailed
from testbed.engine import Performance, Run, Setting, Wiring, topology_of
from testbed.run_folder import RunFolder
from testbed.sealing import sealed
from testbed.spec import Experiment
from workloads.schedule import schedule_of

NAME = "fake"
IN_PROCESSES = True


def demand(experiment: Experiment) -> None:
    pass


def exclusive(wait_s: float = 0) -> AbstractContextManager[None]:
    return nullcontext()


def parallel(experiment: Experiment) -> int:
    return 2


def cancel() -> None:
    pass


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    return Setting(topology_of(experiment), Wiring())


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    def play() -> Performance:
        if run.choice.label == os.environ.get("GIVEWAY_FAKE_FAIL"):
            raise RunFailed("as told")
        (folder.logs / "process").write_text(str(os.getpid()))
        time.sleep(float(os.environ.get("GIVEWAY_FAKE_SLEEP_S", "0")))
        on_time(run.experiment.duration_ns // 2)
        (folder.journals / "all.jsonl").write_text("".join(f"{row}\n" for row in rows(run)))
        return Performance({}, {})

    sealed(run, folder, setting, NAME, play)


def rows(run: Run) -> list[str]:
    """Flows take 1 ms a kilobyte (half of it under priority), iterations what they compute."""
    schedule = schedule_of(run.experiment, run.seed)
    speed = 1000 if run.choice.policy == "fifo" else 500
    found: list[list[object]] = []
    for flow, start, size in zip(
        schedule.flow.tolist(), schedule.start_ns.tolist(), schedule.size_byte.tolist(), strict=True
    ):
        found += [["start", flow, start], ["end", flow, start + speed * size]]
    for at in range(0, run.experiment.duration_ns + 1, run.experiment.duration_ns // 100):
        for host in run.experiment.host_names:
            found.append(["links", at, f"{host}->s1", run.choice.link_policy.bands[0], at, 0])
    for job in run.experiment.training:
        length = job.iteration_ns
        for number in range(run.experiment.duration_ns // length):
            for worker in range(len(job.host_names)):
                at = number * length
                found.append(["iterations", job.name, worker, number, at, at + length, length, 0])
    return [json.dumps(row) for row in found]
