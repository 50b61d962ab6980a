"""`giveway sweep`: an experiment file over a grid of settings."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from basics.errors import BadInput
from testbed import engines, own_files
from testbed.cli import places
from testbed.cli.options import OwnPolicies, OwnTopologies, SweepFile
from testbed.cli.results import AsJson, AsJunit, Told
from testbed.progress import OneBar
from testbed.spec import sweep_file
from testbed.spec.hosts import DOCKER

if TYPE_CHECKING:
    from testbed.workers.clusters import WorkersPlace

INTERRUPTED = 130
HOUR_S = 3600.0

MoreFolders = Annotated[
    list[Path] | None, typer.Argument(help="with --join: the folders of all shards")
]
OneShard = Annotated[
    str | None, typer.Option("--shard", help="only these points: 3/16 is the third of 16 parts")
]
DaskPlace = Annotated[
    str | None,
    typer.Option("--dask", help="on Dask's workers: a scheduler's ADDRESS, local:N or slurm:FILE"),
]
JoinFlag = Annotated[
    bool, typer.Option("--join", help="put the folders of shards together, and report on all")
]


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command()
    def sweep(
        file: SweepFile,
        folders: MoreFolders = None,
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
        shard: OneShard = None,
        join: JoinFlag = False,
        dask: DaskPlace = None,
        policies: OwnPolicies = None,
        topologies: OwnTopologies = None,
        json_: AsJson = False,
        junit: AsJunit = None,
    ) -> None:
        """Run every point of an experiment's sweep; one report of all.

        Interrupt it and give the same command again: what is finished is kept. Parts of it, made
        on several machines with --shard, become one with --join (docs/scale.md).

        Example: giveway sweep experiments/thesis-grid.yaml --engine fluid --out runs/grid
        """
        if join:
            given: dict[str, object] = {"--set": set_, "--shard": shard, "--dask": dask}
            given |= {"--engine": engine != engines.AUTO}
            refuse_beside_join([option for option, value in given.items() if value])
            joined([file, *(folders or ())], out, Told.to(console, json_, junit))
            return
        if folders:
            raise BadInput(f"{folders[0]}: one file at a time; folders are given with --join")
        engines.resolve(engine)  # a mistyped name is said first
        grid = sweep_file.load(file, set_ or (), any_size=yes)
        engine = engines.resolve(engine, containers=grid.first.hosts == DOCKER)
        from testbed.shards import Shard
        from testbed.sweep import run_sweep  # Mininet, only where a run needs it

        part = None if shard is None else Shard.read(shard)
        workers = None if dask is None else dask_place(dask, engine)
        if part is not None and (json_ or junit):
            raise BadInput("--json, --junit: are of the whole sweep: give them to --join")
        name = f"{grid.first.name}-{engine}{'' if part is None else part.suffix}"
        out = out or Path("runs") / name
        places.demand_folder(out)
        told = Told.to(console, json_, junit)
        try:
            with told.failing(grid.first.name):
                bar = partial(OneBar, told.console)
                run_sweep(grid, out, engine, typed(), bar, HOUR_S * wait, part, workers)
        except KeyboardInterrupt:
            print(
                "giveway: interrupted; finished runs are kept, the same command goes on from there",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
        if part is None:
            told.sweep(out)
        else:
            told.line(f"shard {part}: {out}; all of them: giveway sweep --join FOLDER…")


def dask_place(text: str, engine: str) -> "WorkersPlace":
    """Where workers are; refuses, before anything is started, what they cannot do."""
    from testbed.workers.clusters import WorkersPlace, demand_dask

    place = WorkersPlace.read(text)
    if engine == "realtime":
        raise BadInput("--dask: runs in real time need a machine each: use fluid or virtual")
    if own_files.named():
        raise BadInput("--dask: workers have no --policies or --topologies: put them into a clone")
    demand_dask(place)
    return place


def refuse_beside_join(options: list[str]) -> None:
    if options:
        raise BadInput(f"{options[0]}: says what to run, and --join runs nothing: leave one out")


def joined(folders: list[Path], out: Path | None, told: Told) -> None:
    """Put shards together, and report on the whole."""
    from analysis import sweep as analysis
    from testbed import shards

    sweep, engine = shards.common(folders)
    out = out or Path("runs") / f"{sweep.first.name}-{engine}"
    places.demand_folder(out)
    with told.failing(sweep.first.name):
        shards.join(sweep, engine, folders, out, typed(), told.line)
        told.line("analysing …")
        analysis.write(out)
    told.sweep(out)


def typed() -> str:
    return "giveway " + shlex.join(sys.argv[1:])
