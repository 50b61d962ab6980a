"""Everything that can be named in an experiment file or on the command line."""

import importlib
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import policies
import topologies
from policies.placements import PLACEMENTS
from testbed import engines, sweepspec
from testbed.errors import BadInput
from testbed.spec import load
from testbed.specfile import read_mapping
from workloads import profiles, sizes

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


def show(console: Console) -> None:
    _section(console, "experiments (giveway run FILE)", _experiments())
    _section(console, "engines", engines.DESCRIPTIONS.items())
    _section(
        console,
        "policies",
        ((name, policy.description) for name, policy in policies.available().items()),
    )
    _section(
        console,
        "placements of parameter servers (most skewed first; with 21 jobs)",
        ((name, shape_of(name)) for name in PLACEMENTS),
    )
    _section(
        console,
        "topologies",
        ((name, _described(kind)) for name, kind in topologies.available().items()),
    )
    _section(
        console,
        "layer profiles",
        ((name, profile.provenance) for name, profile in profiles.available().items()),
    )
    _section(
        console,
        "flow sizes",
        (
            (name, f"{cdf.source} (mean {cdf.mean_byte / 1000:,.0f} kB)")
            for name, cdf in sizes.available().items()
        ),
    )


def shape_of(name: str) -> str:
    """How many of 21 jobs' servers each host holds."""
    return " + ".join(str(jobs) for jobs in PLACEMENTS[name](21, 21) if jobs)


def _experiments() -> Iterable[tuple[str, str]]:
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        try:
            if "sweep" in read_mapping(path):
                grid = sweepspec.load(path)
                said = f"{grid.first.question} (giveway sweep, {grid.runs} runs)"
            else:
                said = load(path).question
            yield f"experiments/{path.name}", said
        except BadInput as error:
            yield f"experiments/{path.name}", str(error)


def _described(kind: topologies.Kind) -> str:
    """The first line of the topology's file, and the keys that it has of its own."""
    module = importlib.import_module(kind.build.__module__)
    first_line = (module.__doc__ or "").strip().split("\n")[0]
    options = (
        f"{name}: {option.meaning} ({option.allowed})" for name, option in kind.options.items()
    )
    return "\n  ".join([first_line, *options])


def _section(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, text in rows:
        table.add_row(name, text)
    console.print(table)
    console.print()
