"""How the fluid engine's time grows with flows and hosts. Alone it draws docs/fluid-growth.png.

Fat trees at 10 Gbit/s, web-search flows a tenth as large, 1,000 a second at every host: 14 % of
its link. In one series hosts and flows grow together, in the other only the flows (for longer).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from bench.base import Effort, Ratio, loaded_from, run_id
from testbed.engine import Run
from testbed.fluid import engine
from testbed.run_folder import RunFolder

PICTURE = Path(__file__).parent.parent / "docs" / "fluid-growth.png"
# Time against n log n, both as logarithms: 1 would be exactly n log n, 2 its square.
GOAL = 1.15
A_HOST = 977  # flows: a million over 1,024 hosts
TREES = (4, 6, 8, 10, 12, 16)  # k of each: 16 to 1,024 hosts
FLOWS = (10_000, 31_600, 100_000, 316_000)  # in the largest
EXPERIMENT = """
name: growth
topology: {{kind: fat-tree, k: {k}, rate: 10 Gbit/s, delay: 10 us, queue: 1000 packets}}
duration: {duration_us} us
flows:
  - {{name: web, sizes: web-search, scale: 0.1, arrivals: 1000 per second per host,
      pairs: all-to-all}}
policies: [fifo]
seeds: [0]
"""


@dataclass(frozen=True)
class Growth:
    hosts: int
    flows: int
    cpu_s: float


def measure(effort: Effort) -> list[Ratio]:
    if effort.tiny:
        spent_s = played(4, 320).cpu_s
        return [Ratio("CPU seconds of 320 flows", (spent_s,), 1e9, "at most", "tiny")]
    return [
        Ratio(
            f"exponent of CPU time over n log n, {name} growing",
            (exponent(found),),
            GOAL,
            "at most",
            "; ".join(f"{p.hosts} hosts, {p.flows} flows {p.cpu_s:.1f} s" for p in found),
        )
        for name, found in points().items()
    ]


def points() -> dict[str, list[Growth]]:
    together = [played(k, k**3 // 4 * A_HOST) for k in TREES]
    flows = [played(TREES[-1], count) for count in FLOWS]
    return {"hosts and flows": together, "flows": [*flows, together[-1]]}


def played(k: int, flows: int) -> Growth:
    """One run, sealed; compiling is not counted."""
    hosts = k**3 // 4
    duration_us = round(1e6 * flows / hosts / 1000)
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        experiment = loaded_from(
            Path(name), EXPERIMENT.format(k=k, duration_us=duration_us), files=None
        )
        run = Run(experiment, experiment.policies[0], 0, run_id())
        setting = engine.settle(experiment, lambda line: None, run.run_id)
        before_s = time.process_time()
        engine.execute(run, RunFolder(Path(name) / "run"), setting, lambda time_ns: None)
        return Growth(hosts, flows, time.process_time() - before_s)


def exponent(series: Sequence[Growth]) -> float:
    work = [math.log(point.flows * math.log(point.flows)) for point in series]
    return float(np.polyfit(work, [math.log(point.cpu_s) for point in series], 1)[0])


def draw(series: dict[str, list[Growth]], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (name, found), marker in zip(series.items(), "os", strict=True):
        count = [point.flows for point in found]
        label = f"{name} grow: (n log n)^{exponent(found):.2f}"
        axes.loglog(count, [point.cpu_s for point in found], marker=marker, label=label)
    last = max((point for found in series.values() for point in found), key=lambda p: p.flows)
    count = sorted(point.flows for found in series.values() for point in found)
    unit = last.cpu_s / (last.flows * math.log(last.flows))
    axes.loglog(count, [unit * n * math.log(n) for n in count], "--", color="grey", label="n log n")
    axes.set(xlabel="flows", ylabel="processor seconds")
    axes.set_title(f"A run of the fluid engine, up to {last.hosts} hosts and {last.flows:,} flows")
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    found = points()
    draw(found, PICTURE)
    for name, series in found.items():
        print(f"{name} grow: exponent {exponent(series):.3f}")
        for point in series:
            print(f"  {point.hosts:5} hosts {point.flows:8} flows {point.cpu_s:8.2f} CPU s")
