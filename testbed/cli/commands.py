"""The command line: `giveway doctor | list | run | sweep | report | agree | reproduce | …`.

Exit codes: 0 done and all claims hold, 1 a claim does not hold, 2 bad input, 3 the machine cannot
do it, 4 a run failed or something unforeseen happened, 130 interrupted, 141 nobody reads on.
"""

import os
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from basics import command, units
from basics.errors import BadInput
from testbed import __version__, engines, own_files
from testbed.clean import clean as clean_up
from testbed.cli import catalogue, doctor, inside, lab, on, places, reproduce, tune
from testbed.cli import pcap as pcaps
from testbed.cli import sweep as sweeps
from testbed.cli.expected import Expected
from testbed.cli.options import EPILOG, ExperimentFile, OwnPolicies, OwnTopologies
from testbed.cli.results import AsJson, AsJunit, Told
from testbed.cli.sweep import HOUR_S, INTERRUPTED
from testbed.progress import Progress, counted
from testbed.spec import load
from testbed.spec.hosts import DOCKER
from workloads import profiler, profiles


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """A broken pipe in a run is not typer's to answer: with exit code 1, in silence."""
        try:
            return super().invoke(ctx)
        except (OSError, EOFError) as error:
            raise command.Escaped from error


app = typer.Typer(
    cls=Commands,
    help="When training shares a network with latency-sensitive traffic: who gives way, "
    "and what does each side pay?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
)
console = Console()


def _version(asked: bool) -> None:
    if asked:
        print(f"giveway {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="the version")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="say only what went wrong")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="say more: each run, and details of errors")
    ] = False,
) -> None:
    """When training shares a network with latency-sensitive traffic: who gives way?"""
    if quiet and verbose:
        raise BadInput("-q and -v: one of them")
    console.quiet = quiet
    if verbose:
        os.environ[command.DEBUG] = "1"


def main() -> None:
    """Run the command line; all trouble is one message and its exit code."""
    command.run(app)


@app.command()
def run(
    file: ExperimentFile,
    out: Annotated[Path | None, typer.Option(help="where to put the results")] = None,
    engine: Annotated[str, typer.Option(help=engines.CHOICE)] = engines.AUTO,
    policy: Annotated[list[str] | None, typer.Option(help="only this policy (repeatable)")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="only this seed (repeatable)")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="override a key: topology.hosts=8")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(help="what hosts are: namespaces or docker (containers)")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="wait for another realtime run, up to an hour")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(help="the digest that the records must have, or an earlier run's folder"),
    ] = None,
    pcap: Annotated[
        list[str] | None, typer.Option(help="keep a link's packets: 'h1->s1' (repeatable)")
    ] = None,
    policies: OwnPolicies = None,
    topologies: OwnTopologies = None,
    json_: AsJson = False,
    junit: AsJunit = None,
) -> None:
    """Run an experiment and write its report.

    Example: giveway run experiments/quickstart.yaml --out runs/first --seed 0
    """
    engines.resolve(engine)  # a mistyped name is said first
    expected = Expected.read(expect)
    settings = [*(set_ or ()), *([] if hosts is None else [f"hosts={hosts}"])]
    experiment = load(file, settings).only(policy or (), seed or ())
    engine = engines.resolve(engine, containers=experiment.hosts == DOCKER)
    if experiment.hosts == DOCKER and own_files.named():
        raise BadInput("--policies, --topologies: containers have no such folder: use a clone")
    if expect is not None and engine == "realtime":
        raise BadInput("--expect: the realtime engine's records are never the same twice")
    captures = pcaps.links_asked(pcap or (), experiment, engine)
    out = out or Path("runs") / f"{experiment.name}-{datetime.now():%Y%m%d-%H%M%S}"
    places.demand_folder(out)
    told = Told.to(console, json_, junit)
    from testbed.run import run_experiment  # Mininet, only where a run needs it

    runs = len(experiment.arms) * len(experiment.seeds)
    given = "giveway " + shlex.join(sys.argv[1:])
    try:
        with told.failing(experiment.name):
            progress = Progress(told.console, runs)
            run_experiment(experiment, out, engine, given, progress, HOUR_S * wait, captures)
    except KeyboardInterrupt:
        print("giveway: interrupted; everything is cleaned up", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    pcaps.tell(out, captures, told)
    told.run(out, expected)


sweeps.add_to(app, console)
reproduce.add_to(app, console)
tune.add_to(app, console)
on.add_to(app, console)
inside.add_to(app, console)
lab.add_to(app, console)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="the folder of a run")],
    picture: Annotated[
        Path | None, typer.Option(help="also draw who gains, who pays: a .png file")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="also write every figure as SVG, PDF and CSV: a folder")
    ] = None,
    json_: AsJson = False,
    junit: AsJunit = None,
) -> None:
    """Write summary and report of a finished run again.

    Example: giveway report runs/first --picture first.png --figures figures
    """
    places.demand_results(folder)
    if picture is not None:
        places.demand_file("--picture", picture, ".png")
    if figures is not None:
        places.demand_folder(figures, "--figures")
    told = Told.to(console, json_, junit)
    from analysis import report as reports
    from analysis import sweep

    if sweep.is_sweep(folder):
        for option, asked in (("--picture", picture), ("--figures", figures)):
            if asked is not None:
                raise BadInput(f"{option}: {folder} is a sweep; name one of its points")
        with told.failing(folder.name):
            sweep.write(folder)
        told.sweep(folder)
        return
    with told.failing(folder.name):
        reports.write(folder)
    if picture is not None:
        reports.draw(folder, picture)
    if figures is not None:
        written = reports.write_figures(folder, figures)
        told.line(f"figures: {len(written)} files in {figures}")
    told.run(folder)


@app.command()
def agree(
    reference: Annotated[Path, typer.Argument(help="the folder of a run")],
    other: Annotated[Path, typer.Argument(help="the same experiment, run on another engine")],
) -> None:
    """Print how far two engines are apart on the same experiment.

    Example: giveway agree runs/replay-virtual runs/replay-fluid
    """
    for folder in (reference, other):
        places.demand_results(folder)
    from analysis.agreement import compared

    for part in compared(reference, other):
        console.print(part, markup=False, highlight=False, soft_wrap=True)


@app.command()
def profile(
    model: Annotated[str, typer.Option(help=", ".join(profiler.MODELS))],
    out: Annotated[Path, typer.Option(help="where to put the profile, a .csv file")],
    batch: Annotated[int, typer.Option(help="samples in a batch")] = 32,
    repeats: Annotated[int, typer.Option(help="iterations to take medians of")] = 10,
    scale_to: Annotated[
        str | None, typer.Option(help="stretch the iteration to this time, like 280ms")
    ] = None,
) -> None:
    """Measure a model's layers on this CPU (needs torch).

    Example: giveway profile --model resnet50 --batch 32 --scale-to 280ms --out mine.csv
    """
    try:
        scale_to_ns = None if scale_to is None else units.time_ns(scale_to)
    except ValueError as error:
        raise BadInput(f"--scale-to: {error}") from None
    order = profiler.Order(model, batch, repeats, scale_to_ns)
    places.demand_file("--out", out, ".csv")
    try:
        with counted(console, f"{model}, iterations", profiler.steps(order)) as step:
            measured = profiler.profile(order, out.stem, step)
    except KeyboardInterrupt:
        print("giveway: interrupted; nothing was written", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    profiles.write(out, measured)
    console.print(measured.provenance, markup=False, highlight=False, soft_wrap=True)
    total = f"{len(measured.layers)} layers, {units.format_size(measured.total_byte)}"
    console.print(f"{total}: {out}", markup=False, highlight=False, soft_wrap=True)
    if out.resolve().parent != profiles.FOLDER:
        console.print(
            f"to use it, copy it to workloads/profiles/ and write profile: {out.stem}",
            soft_wrap=True,
        )


@app.command("doctor")
def doctor_(measure: Annotated[bool, typer.Option(help="also measure capacity")] = False) -> None:
    """Say what this machine can run, and how to make more work.

    Example: giveway doctor --measure
    """
    if not doctor.examine(console, measure):
        raise typer.Exit(3)


@app.command("list")
def list_(
    what: Annotated[
        list[str] | None,
        typer.Argument(help=f"all there is to say of {', '.join(catalogue.SECTIONS)}"),
    ] = None,
    policies: OwnPolicies = None,
    topologies: OwnTopologies = None,
) -> None:
    """List experiments, policies, topologies, profiles and sizes.

    Example: giveway list policies
    """
    catalogue.show(console, *([what] if what else []))


@app.command("build-kernel")
def build_kernel() -> None:
    """Build the virtual engine's kernel, once (5 minutes).

    Example: giveway build-kernel
    """
    from testbed.virtual import build, check

    build.main()
    check.main()


@app.command()
def clean() -> None:
    """Remove what killed runs have left; living ones stay.

    Example: giveway clean
    """
    ended = clean_up()
    for leftover in ended:
        console.print(str(leftover), markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(ended)} leftovers removed" if ended else "nothing was left over")
