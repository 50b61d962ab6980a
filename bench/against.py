"""What the simulation costs here and in another checkout, by turns: `python -m bench.against PATH`.

One process for each checkout, which stays; the first turn of each, with its compiling, is left out.
Both run with this checkout's interpreter and libraries.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

HERE = Path(__file__).resolve().parent.parent
# Played inside each checkout, with its own benchmarks; only names that both have.
PLAYER = """
import sys, time
from bench import fluid_growth, fluid_speed, many_jobs, sliced_transfers

def engine_alone():
    cell = fluid_speed.cell(560, 46)
    setting = fluid_speed.engine.settle(cell, lambda line: None, "against")
    before_s = time.process_time()
    for choice in cell.policies:
        run = fluid_speed.Run(cell, choice, 0, "against")
        fluid_speed.engine.perform(run, setting, fluid_speed.engine.Records(), lambda time_ns: None)
    return time.process_time() - before_s

def grid():
    cells = [(ms, at) for ms in fluid_speed.ITERATIONS_MS for at in fluid_speed.ARRIVALS]
    return sum(fluid_speed.cpu_s(fluid_speed.cell(*one), 0) for one in cells)

def slices():
    whole, iterations, slice = "574.66896 MB", 10, "160 kB"
    return fluid_speed.cpu_s(sliced_transfers.experiment(whole, iterations, slice), 0)

CASES = {
    "cell": engine_alone,
    "grid": grid,
    "jobs": lambda: many_jobs.fluid_cpu_s(21, 21, 10),
    "flows": lambda: fluid_growth.played(16, 1_000_000).cpu_s,
    "some-flows": lambda: fluid_growth.played(8, 20_000).cpu_s,
    "slices": slices,
}
for line in sys.stdin:
    print(CASES[line.strip()](), flush=True)
"""
CASES = {
    "cell": "the thesis's cell, both policies, engine alone",
    "grid": "the thesis's grid, one seed, sealed",
    "jobs": "21 parameter-server jobs of 21 tasks, sealed",
    "flows": "1,000,000 flows on 1,024 hosts, sealed",
    "some-flows": "20,000 flows on 128 hosts, sealed",
    "slices": "P3's slices of VGG-19, 4 workers, 10 iterations, sealed",
}


def main(
    other: Annotated[Path, typer.Argument(help="The other checkout.", exists=True)],
    case: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(CASES)}.")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Processor seconds of the simulation here over those of another checkout."""
    with player(HERE) as here, player(other.resolve()) as there:
        for name in case or list(CASES):
            asked(here, name), asked(there, name)
            pairs = [(asked(here, name), asked(there, name)) for _ in range(rounds)]
            ratio = statistics.median(mine / its for mine, its in pairs)
            said = ", ".join(f"{mine:.2f}/{its:.2f}" for mine, its in pairs)
            print(f"{CASES[name]}: {ratio:.2f} ({said} CPU-s)", flush=True)


@contextmanager
def player(checkout: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", PLAYER]
    with subprocess.Popen(
        command,
        cwd=checkout,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process


def asked(process: "subprocess.Popen[str]", name: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


if __name__ == "__main__":
    typer.run(main)
