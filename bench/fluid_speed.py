"""What simulated runs cost: the thesis's grid on the fluid engine, in minutes of two cores."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.base import Effort, Ratio, run_id
from testbed.engine import Run
from testbed.fluid import engine
from testbed.run_folder import RunFolder
from testbed.spec import Experiment, load

CELL = Path(__file__).parent.parent / "experiments" / "thesis-cell.yaml"
ITERATIONS_MS, ARRIVALS = (2240, 1120, 560, 280), (23, 46, 92, 184)
SEEDS = 3
GRID_S = 2 * 60.0  # processor time: a minute of two cores


def measure(effort: Effort) -> list[Ratio]:
    """Each repeat plays all cells and policies under another seed: a third of the grid."""
    if effort.tiny:
        spent_s = cpu_s(cell(2240, 23, "duration=1 s", "warmup=100 ms", "cooldown=100 ms"), 0)
        return [Ratio("CPU seconds of a simulated second", (spent_s,), 1e9, "at most", "tiny")]
    spent: list[dict[tuple[int, int], float]] = []
    for seed in range(effort.repeats):
        cells = [(ms, arrivals) for ms in ITERATIONS_MS for arrivals in ARRIVALS]
        spent.append({at: cpu_s(cell(*at), seed) for at in cells})
    heaviest = spent[0][ITERATIONS_MS[-1], ARRIVALS[-1]]
    return [
        Ratio(
            "CPU seconds of the thesis's 96 runs over a minute of two cores",
            tuple(SEEDS * sum(by_cell.values()) / GRID_S for by_cell in spent),
            1.0,
            "at most",
            f"{', '.join(f'{sum(s.values()):.1f}' for s in spent)} CPU-s for the 32 runs of a "
            f"seed, 12 s each, sealed; the heaviest cell's two runs {heaviest:.1f}",
        )
    ]


def cell(iteration_ms: int, arrivals: int, *more: str) -> Experiment:
    settings = (
        f"training.0.iteration={iteration_ms} ms",
        f"flows.0.arrivals={arrivals} per second per host",
        *more,
    )
    return load(CELL, settings)


def cpu_s(experiment: Experiment, seed: int) -> float:
    """Processor time of all policies under one seed, folders sealed; compiling is not counted."""
    setting = engine.settle(experiment, lambda line: None, run_id())
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        before_s = time.process_time()
        for choice in experiment.policies:
            run = Run(experiment, choice, seed, run_id())
            engine.execute(run, RunFolder(Path(name) / choice.label), setting, lambda time_ns: None)
        return time.process_time() - before_s
