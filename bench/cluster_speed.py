"""What a simulated cluster costs: a Philly-like trace on 1,024 hosts, and the seed's Tetris."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.base import Effort, Ratio, loaded_from, run_id
from testbed.engine import Run
from testbed.fluid import engine
from testbed.run_folder import RunFolder
from testbed.spec import Experiment, sweep_file

SEED = Path(__file__).parent.parent / "experiments" / "seed-tetris.yaml"
PHILLY = """
name: philly
topology: {kind: tor, hosts: HOSTS, rate: 10 Gbit/s, delay: about 10 us, queue: 1000 packets}
duration: 1000000 min
cluster:
  host: {gpu: 4}
  jobs: [{name: philly, count: JOBS, arrivals: poisson over 2400 min, like: philly}]
  checkpoint: {suspend: 100 ms, resume: 1 s}
placements: [fifo, {placement: fifo, blocking: false}, tetris, tetris-2014, srtf, las,
             gandiva-lite, crux, cassini]
seeds: [0]
"""
PHILLY_S, SEED_S = 60.0, 2.0


def measure(effort: Effort) -> list[Ratio]:
    """Processor time of one run, records sealed, with the slowest scheduler."""
    jobs, hosts = (100, 16) if effort.tiny else (10_000, 1024)
    text = PHILLY.replace("JOBS", str(jobs)).replace("HOSTS", str(hosts))
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        philly = cpu_s(loaded_from(Path(name), text, None))
    seed = cpu_s(sweep_file.load(SEED).first)
    return [over(f"{jobs} jobs on {hosts} hosts", philly, PHILLY_S), over("Tetris", seed, SEED_S)]


def over(what: str, spent: dict[str, float], goal_s: float) -> Ratio:
    told = ", ".join(f"{label} {seconds:.1f}" for label, seconds in spent.items())
    slowest = max(spent.values()) / goal_s
    return Ratio(
        f"{what}: CPU seconds of the slowest scheduler over {goal_s:g}",
        (slowest,),
        1.0,
        "at most",
        f"CPU-s: {told}",
    )


def cpu_s(experiment: Experiment) -> dict[str, float]:
    """By scheduler, under the first seed."""
    setting = engine.settle(experiment, lambda line: None, run_id())
    spent = {}
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        for arm in experiment.arms:
            run = Run(experiment, arm.choice, experiment.seeds[0], run_id(), arm.placement)
            before_s = time.process_time()
            engine.execute(run, RunFolder(Path(name) / arm.label), setting, lambda time_ns: None)
            spent[arm.label] = time.process_time() - before_s
    return spent
