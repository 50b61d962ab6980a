"""`giveway sweep`: an experiment file over a grid of settings."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from testbed import engines
from testbed.cli import places
from testbed.cli.options import OwnPolicies, OwnTopologies, SweepFile
from testbed.cli.results import AsJson, AsJunit, Told
from testbed.progress import OneBar
from testbed.spec import sweep_file
from testbed.spec.hosts import DOCKER

INTERRUPTED = 130
HOUR_S = 3600.0


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command()
    def sweep(
        file: SweepFile,
        out: Annotated[
            Path | None, typer.Option(help="where to put the results; the same again goes on there")
        ] = None,
        engine: Annotated[str, typer.Option(help=engines.CHOICE)] = engines.AUTO,
        set_: Annotated[
            list[str] | None, typer.Option("--set", help="override a key: seeds=[0]")
        ] = None,
        yes: Annotated[
            bool, typer.Option("--yes", help=f"allow more than {sweep_file.MOST_RUNS} runs")
        ] = False,
        wait: Annotated[
            bool, typer.Option("--wait", help="wait for another realtime run, up to an hour")
        ] = False,
        policies: OwnPolicies = None,
        topologies: OwnTopologies = None,
        json_: AsJson = False,
        junit: AsJunit = None,
    ) -> None:
        """Run an experiment at every point of its sweep, and write one report of all.

        Interrupt it and give the same command again: what is finished is kept.

        Example: giveway sweep experiments/thesis-grid.yaml --engine fluid --out runs/grid
        """
        engines.resolve(engine)  # a mistyped name is said first
        grid = sweep_file.load(file, set_ or (), any_size=yes)
        engine = engines.resolve(engine, containers=grid.first.hosts == DOCKER)
        out = out or Path("runs") / f"{grid.first.name}-{engine}"
        places.demand_folder(out)
        told = Told.to(console, json_, junit)
        from testbed.sweep import run_sweep  # Mininet, only where a run needs it

        command = "giveway " + shlex.join(sys.argv[1:])
        try:
            with told.failing(grid.first.name):
                bar = partial(OneBar, told.console)
                run_sweep(grid, out, engine, command, bar, HOUR_S * wait)
        except KeyboardInterrupt:
            print(
                "giveway: interrupted; finished runs are kept, the same command goes on from there",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
        told.sweep(out)
