"""What one warm parent saves: 8 torch workers up to their first iteration, against 8 imports."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from basics.errors import CannotRun
from bench.base import Effort, Ratio, loaded_from, run_id
from testbed import processes
from testbed.engine import Run
from testbed.live import hosts_file
from testbed.live.crew import Crew
from testbed.live.network import Network
from testbed.live.stage import Stage
from testbed.processes import Nursery
from testbed.realtime import engine
from testbed.run_folder import RunFolder
from testbed.spec import Experiment
from testbed.stacks import STACKS, demand_stacks, preload

GOAL = 3.0
IMPORT_LIMIT_S = 300.0

EXPERIMENT = """
name: bench-warm-start
topology: {{kind: tor, hosts: {workers}, rate: 1 Gbit/s, delay: about 10 us, queue: 1000 packets}}
duration: 300 ms
training:
  - {{name: job, profile: resnet50-thesis, model: 1 MB, iteration: 10 ms, fusion: 1 MB,
     backend: torch}}
policies: [fifo]
seeds: [0]
dilation: 1
"""


def measure(effort: Effort) -> list[Ratio]:
    workers = 3 if effort.tiny else 8
    name = f"{workers} separate imports of torch over one warm parent's start to first iteration"
    with TemporaryDirectory(prefix="giveway-bench-") as folder:
        experiment = loaded_from(Path(folder), EXPERIMENT.format(workers=workers), None)
        try:
            demand_stacks(experiment)
        except CannotRun as why:
            return [Ratio(name, (), GOAL, note=str(why))]
        pairs = []
        for at in range(effort.repeats):
            run_folder = RunFolder(Path(folder) / f"run-{at}")
            pairs.append((separate_s(workers), warm_s(experiment, run_folder)))
    values = tuple(separate / warm for separate, warm in pairs)
    shown = ", ".join(f"{separate:.1f} s against {warm:.1f} s" for separate, warm in pairs)
    return [Ratio(name, values, GOAL, note=shown)]


def separate_s(workers: int) -> float:
    """As many fresh interpreters at once, each importing what a worker imports; no more."""
    command = [sys.executable, "-c", f"import testbed.live.nursery, {STACKS['torch'].module}"]
    begin_s = time.monotonic()
    started = [processes.popen(command, run_id()) for _ in range(workers)]
    for process in started:
        if process.wait(IMPORT_LIMIT_S):
            raise CannotRun(f"`{' '.join(command)}` failed")
    return time.monotonic() - begin_s


def warm_s(experiment: Experiment, folder: RunFolder) -> float:
    """From the start of the nursery to the instant at which all workers begin to train."""
    run = Run(experiment, experiment.policies[0], 0, run_id())
    setting = engine.settle(experiment, lambda line: None, run.run_id)
    policy = run.choice.link_policy
    with Network(setting.topology, policy, setting.wiring, run_id=run.run_id) as network:
        begin_s = time.monotonic()
        hosts_file.write(folder.journals, setting.topology.hosts)
        log, modules = folder.logs / "nursery.log", preload(experiment)
        with Nursery(run.run_id, log, preload=modules, names=folder.journals) as nursery:
            stage = Stage(run, network, nursery, folder, {})
            workers = stage.start_stacks()
            crew = Crew(nursery, workers)
            crew.await_all("listening")
            crew.tell(connect_ns=time.monotonic_ns())
            crew.await_all("ready")
            stage.mark_workers()
            spent_s = time.monotonic() - begin_s
            crew.tell(epoch_ns=time.monotonic_ns())
            crew.await_all("done")
            if not all(worker.said["done"]["iterations"] for worker in workers):
                raise CannotRun("a worker did not finish one iteration in time")
            crew.dismiss()
    return spent_s
