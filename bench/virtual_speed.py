"""What a virtual second costs: on the thesis's cell against ns-3, and as work grows."""

import resource
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from basics.errors import CannotRun
from bench.base import Effort, Ratio, run_id
from testbed.engine import Run
from testbed.run_folder import RunFolder
from testbed.spec import Experiment, load
from testbed.virtual import engine

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
# The thesis's own ns-3 model of the same cell, 12 s, on this kind of machine: over an hour of one
# processor. It is not part of this project and is not run here; the figure is the issue's.
NS3_CPU_S = 3600.0
CELL_GOAL = 0.1
GROWTH_GOAL = 2.0
PAYLOAD_BYTE = 1448


def measure(effort: Effort) -> list[Ratio]:
    quickstart = load(EXPERIMENTS / "quickstart.yaml")
    cell = load(EXPERIMENTS / "thesis-cell.yaml")
    try:
        engine.demand(cell)
    except CannotRun as why:
        return [Ratio("virtual engine", (), CELL_GOAL, "at most", str(why))]
    if effort.tiny:
        quickstart = shorter(quickstart, "200 ms")
        quick_s = cpu_s(quickstart)[0]
        return [Ratio("CPU seconds of a virtual second", (quick_s / 0.2,), 1e9, "at most", "tiny")]
    quick_s, _ = cpu_s(quickstart)
    cell_s, cell_packets = cpu_s(cell)
    per_packet = {8: cell_s / cell_packets}
    for hosts in (2, 4):
        small_s, packets = cpu_s(shorter(cell, "3 s", hosts))
        per_packet[hosts] = small_s / packets
    short_s, short_packets = cpu_s(shorter(cell, "1500 ms"))
    costs = ", ".join(
        f"{hosts} hosts {cost * 1e6:.1f} us" for hosts, cost in sorted(per_packet.items())
    )
    return [
        Ratio(
            "CPU seconds of the thesis's cell (8 hosts, R=4, 46 flows/s, 12 s) over ns-3's",
            (cell_s / NS3_CPU_S,),
            CELL_GOAL,
            "at most",
            f"{cell_s:.0f} CPU-s for {cell_packets / 1e6:.1f} million packets of 1,500 bytes, "
            f"ns-3 {NS3_CPU_S:.0f}; the quickstart: {quick_s / 4:.1f} CPU-s a virtual second",
        ),
        Ratio(
            "CPU of a packet: 8 hosts over 2 hosts, the same load of each",
            (per_packet[8] / per_packet[2],),
            GROWTH_GOAL,
            "at most",
            costs,
        ),
        Ratio(
            "CPU of a packet: 12 s over 1.5 s of the same cell",
            ((cell_s / cell_packets) / (short_s / short_packets),),
            GROWTH_GOAL,
            "at most",
            f"{short_packets / 1e6:.1f} and {cell_packets / 1e6:.1f} million packets",
        ),
    ]


def shorter(experiment: Experiment, duration: str, hosts: int | None = None) -> Experiment:
    """The same experiment for a shorter time, perhaps on fewer hosts."""
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        path = Path(name) / "experiment.yaml"
        path.write_text(experiment.to_yaml())
        changes = [f"duration={duration}", "warmup=0 s", "cooldown=0 s"]
        if hosts is not None:
            changes.append(f"topology.hosts={hosts}")
        return load(path, changes)


def cpu_s(experiment: Experiment) -> tuple[float, float]:
    """Processor seconds of one run, boot included, and the data packets that hosts sent."""
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        run = Run(experiment, experiment.arms[0].choice, experiment.seeds[0], run_id())
        folder = RunFolder(Path(name) / "run")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        setting = engine.settle(experiment, lambda line: None, run.run_id)
        engine.execute(run, folder, setting, lambda time_ns: None)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        links = pd.read_parquet(folder.path / "links.parquet")
    from_hosts = links[links.link.str.startswith("h")]
    sent_byte = float(from_hosts.groupby(["link", "class"])["bytes"].max().sum())
    spent_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent_s, sent_byte / PAYLOAD_BYTE
