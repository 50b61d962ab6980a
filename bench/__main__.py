"""`python -m bench`: run the benchmarks, print a table, exit with 1 if a goal is missed."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import bench
from basics.errors import BadInput, GivewayError
from basics.folding import FoldingTable
from bench.base import Effort, Ratio
from testbed import machine
from testbed.realtime import engine

HOUR_S = 3600.0
VERDICTS = {True: "[green]yes[/]", False: "[red]NO[/]", None: "not here"}


def main(
    only: Annotated[list[str] | None, typer.Option(help="One benchmark; may be repeated.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write results there.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="The median counts.")] = 3,
    tiny: Annotated[bool, typer.Option(help="Only show that the benchmarks work.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for a realtime run, up to an hour.")
    ] = False,
) -> None:
    """Measure what Giveway promises, as ratios. Example: python -m bench --only build_tor"""
    try:
        found = measured(only or list(bench.available()), Effort(repeats, tiny), wait)
    except GivewayError as error:
        print(f"bench: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    Console().print(table(found))
    if json_file is not None:
        plain = {name: [ratio.plain() for ratio in ratios] for name, ratios in found.items()}
        json_file.write_text(json.dumps(plain, indent=1) + "\n")
    missed = any(ratio.met is False for ratios in found.values() for ratio in ratios)
    raise typer.Exit(1 if missed else 0)


def measured(names: list[str], effort: Effort, wait: bool) -> dict[str, list[Ratio]]:
    known = bench.available()
    for name in names:
        if name not in known:
            raise BadInput(f"--only {name}: unknown; there are {', '.join(known)}")
    machine.demand_realtime()
    found = {}
    with engine.exclusive(HOUR_S if wait else 0):
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            found[name] = known[name](effort)
    return found


def table(found: dict[str, list[Ratio]]) -> FoldingTable:
    made = FoldingTable("benchmark", "ratio", "median", "spread", "goal", "met?", show_lines=True)
    for name, ratios in found.items():
        for ratio in ratios:
            median, spread = "-", "-"
            if ratio.median is not None:
                median = f"{ratio.median:.3f}"
                spread = f"{min(ratio.values):.3f} … {max(ratio.values):.3f}"
            what = f"{ratio.name}\n[dim]{ratio.note}[/]" if ratio.note else ratio.name
            goal = f"{ratio.bound} {ratio.goal:g}"
            made.add_row(name, what, median, spread, goal, VERDICTS[ratio.met])
    return made


if __name__ == "__main__":
    typer.run(main)
