"""What Dask costs: the thesis's grid on two workers of this machine, against today's pool."""

import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from basics.errors import CannotRun
from bench.base import Effort, Ratio
from testbed import processes
from testbed.workers.clusters import WorkersPlace, demand_dask

GRID = Path(__file__).parent.parent / "experiments" / "thesis-grid.yaml"
WORKERS = "local:2"
NAME = "CPU seconds of the thesis's 96 runs on local:2 over those of the pool"
GOAL = 1.1
TINY = ("--set", "seeds=[0]", "--set", "duration=1 s", "--set", "warmup=100 ms",
        "--set", "cooldown=100 ms", "--set", "sweep={topology.hosts: [3, 4]}")  # fmt: skip


def measure(effort: Effort) -> list[Ratio]:
    """By turns; processor time of the command and of all that it started, summary included."""
    try:
        demand_dask(WorkersPlace.read(WORKERS))
    except CannotRun as why:
        return [Ratio(NAME, (), GOAL, "at most", str(why))]
    pairs = [(cpu_s(effort), cpu_s(effort, "--dask", WORKERS)) for _ in range(effort.repeats)]
    return [
        Ratio(
            NAME,
            tuple(dask_s / pool_s for pool_s, dask_s in pairs),
            1e9 if effort.tiny else GOAL,
            "at most",
            ", ".join(f"{dask_s:.1f} / {pool_s:.1f}" for pool_s, dask_s in pairs) + " CPU-s",
        )
    ]


def cpu_s(effort: Effort, *options: str) -> float:
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        words = ["sweep", str(GRID), "--engine", "fluid", "--out", f"{name}/out", *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        more = TINY if effort.tiny else ()
        processes.run([sys.executable, "-m", "testbed", *words, *more], limit_s=3600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
