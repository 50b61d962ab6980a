"""Many parameter-server jobs: 21 hosts, 21 jobs of 21 tasks, 10 barriers.

In the virtual engine, with its memory, and in the fluid one.
"""

import json
import os
import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from basics.errors import CannotRun
from bench.base import Effort, Ratio, loaded_from, run_id
from testbed.engine import Run
from testbed.fluid import engine as fluid
from testbed.processes import RUN_VARIABLE
from testbed.run_folder import RunFolder
from testbed.virtual import engine

EXPERIMENT = """
name: many-jobs
topology: {{kind: tor, hosts: {hosts}, rate: 10 Gbit/s, delay: about 10 us, queue: 1000 packets}}
duration: 60 s
training:
  - {{name: ps, profile: resnet32-cpu, aggregation: parameter-server, count: {jobs},
     servers_on: packed, steps: {steps}}}
policies: [fifo]
seeds: [0]
"""
HOSTS = JOBS = 21
BARRIERS = 10
MOST_WALL_S = 15 * 60
MOST_BYTE = 6 * 2**30
MOST_TASK_BYTE = 2**20
GROWTH_GOAL = 1.5
MOST_FLUID_S = 5.0


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    memory_byte: int  # of the guest: every page that it ever touched
    task_byte: float
    sent_byte: float


def measure(effort: Effort) -> list[Ratio]:
    return [*simulated(effort), *live(effort)]


def simulated(effort: Effort) -> list[Ratio]:
    """Processor time: wall clock on an idle core, whatever else the machine does."""
    if effort.tiny:
        return [Ratio("simulated, CPU seconds", (fluid_cpu_s(4, 2, 1),), 1e9, "at most", "tiny")]
    costs = {
        jobs: [fluid_cpu_s(HOSTS, jobs, BARRIERS) for _ in range(effort.repeats)]
        for jobs in (7, JOBS)
    }
    said = ", ".join(f"{jobs} jobs {min(found):.2f} CPU-s" for jobs, found in costs.items())
    grown = JOBS / 7  # in bytes
    return [
        Ratio(
            "simulated: CPU of 21 jobs with 21 tasks, 10 barriers, over 5 s",
            tuple(cost / MOST_FLUID_S for cost in costs[JOBS]),
            1,
            "at most",
            said,
        ),
        Ratio(
            "simulated, CPU of a byte: 21 jobs over 7 jobs",
            tuple(most / (grown * few) for most, few in zip(costs[JOBS], costs[7], strict=True)),
            GROWTH_GOAL,
            "at most",
            said,
        ),
    ]


def fluid_cpu_s(hosts: int, jobs: int, steps: int) -> float:
    """One run, sealed; compiling is not counted."""
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        experiment = loaded_from(Path(name), text(hosts, jobs, steps), None)
        run = Run(experiment, experiment.policies[0], 0, run_id())
        setting = fluid.settle(experiment, lambda line: None, run.run_id)
        before_s = time.process_time()
        fluid.execute(run, RunFolder(Path(name) / "run"), setting, lambda time_ns: None)
        return time.process_time() - before_s


def live(effort: Effort) -> list[Ratio]:
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        try:
            engine.demand(loaded_from(Path(name), text(HOSTS, JOBS, BARRIERS), None))
        except CannotRun as why:
            return [Ratio("virtual engine", (), MOST_WALL_S, "at most", str(why))]
    if effort.tiny:
        cost = played(4, 2, 1)
        return [Ratio("peak memory over 6 GiB", (cost.memory_byte / MOST_BYTE,), 1, "at most")]
    costs = {jobs: played(HOSTS, jobs, BARRIERS) for jobs in (1, 7, JOBS)}
    whole = costs[JOBS]
    per_byte = {jobs: cost.cpu_s / cost.sent_byte for jobs, cost in costs.items()}
    said = ", ".join(f"{jobs} jobs {cost * 1e9:.1f} ns" for jobs, cost in per_byte.items())
    return [
        Ratio(
            "wall clock of 21 jobs with 21 tasks, 10 barriers, over 15 minutes",
            (whole.wall_s / MOST_WALL_S,),
            1,
            "at most",
            f"{whole.wall_s:.0f} s, {whole.cpu_s:.0f} CPU-s, {whole.sent_byte / 1e9:.1f} GB sent",
        ),
        Ratio(
            "its peak memory over 6 GiB",
            (whole.memory_byte / MOST_BYTE,),
            1,
            "at most",
            f"{whole.memory_byte / 2**30:.2f} GiB",
        ),
        Ratio(
            "memory of a task (a worker or a server of a job) over 1 MiB",
            (whole.task_byte / MOST_TASK_BYTE,),
            1,
            "at most",
            f"{whole.task_byte / 1024:.0f} KiB at the host where it is most",
        ),
        Ratio(
            "CPU of a byte: 21 jobs over 7 jobs",
            (per_byte[JOBS] / per_byte[7],),
            GROWTH_GOAL,
            "at most",
            said,
        ),
    ]


def text(hosts: int, jobs: int, steps: int) -> str:
    return EXPERIMENT.format(hosts=hosts, jobs=jobs, steps=steps)


def played(hosts: int, jobs: int, steps: int) -> Cost:
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        experiment = loaded_from(Path(name), text(hosts, jobs, steps), None)
        run = Run(experiment, experiment.policies[0], 0, run_id())
        folder = RunFolder(Path(name) / "run")
        setting = engine.settle(experiment, lambda line: None, run.run_id)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began_s = time.monotonic()
        with Watcher(run.run_id) as watcher:
            engine.execute(run, folder, setting, lambda time_ns: None)
        wall_s = time.monotonic() - began_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        statuses = set(pd.read_parquet(folder.path / "jobs.parquet")["status"])
        if statuses != {"finished"}:
            raise CannotRun(f"{jobs} jobs did not make {steps} steps in 60 s: {statuses}")
        links = pd.read_parquet(folder.path / "links.parquet")
        measured = json.loads((folder.path / "manifest.json").read_text())["fidelity"]["measured"]
    from_hosts = links[links.link.str.startswith("h")]
    return Cost(
        wall_s,
        after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        watcher.most_byte,
        measured["task_memory_byte"],
        float(from_hosts.groupby(["link", "class"])["bytes"].max().sum()),
    )


class Watcher:
    """Looks at the guest's memory while it runs: a file without a name that only grows."""

    def __init__(self, run_id: str) -> None:
        self.most_byte = 0
        self._mark = f"{RUN_VARIABLE}={run_id}\0".encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    self._look(folder)

    def _look(self, folder: Path) -> None:
        try:
            if self._mark not in (folder / "environ").read_bytes():
                return
            used = [
                os.stat(entry).st_blocks * 512
                for entry in (folder / "fd").iterdir()
                if os.readlink(entry).endswith("(deleted)")
            ]
        except OSError:
            return
        self.most_byte = max([self.most_byte, *used])
