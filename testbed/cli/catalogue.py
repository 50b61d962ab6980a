"""Everything that can be named in an experiment file or on the command line."""

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

import topologies
from analysis import metrics
from basics import options
from basics.errors import BadInput
from basics.folding import FoldingTable
from policies.cluster import Scheduler, schedulers
from policies.cluster.placements import PLACEMENTS, SERVERS_BY_RACK
from policies.link import LinkPolicy, link_policies
from policies.transfer import TransferPolicy, transfer_policies
from testbed import engines
from testbed.spec import load, sweep_file
from testbed.spec.mistakes import one_line
from testbed.spec.yaml_file import read
from workloads import profiles, sizes, traces

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def show(console: Console) -> None:
    _section(console, "experiments (giveway run FILE)", _experiments())
    _section(console, "engines", engines.DESCRIPTIONS.items())
    _section(
        console,
        "policies",
        ((name, _described_policy(policy)) for name, policy in link_policies().items()),
    )
    _section(
        console,
        "transfer policies (docs/transfer.md)",
        ((name, _described_policy(policy)) for name, policy in transfer_policies().items()),
    )
    _section(
        console,
        "placements of a cluster's jobs (docs/cluster.md)",
        ((name, _described_policy(scheduler)) for name, scheduler in schedulers().items()),
    )
    _section(
        console,
        "formats of traces",
        ((name, one.source) for name, one in traces.formats().items()),
    )
    _section(
        console,
        "placements of parameter servers (most skewed first; with 21 jobs)",
        ((name, shape_of(name)) for name in (*PLACEMENTS, *SERVERS_BY_RACK)),
    )
    _section(
        console,
        "topologies",
        ((name, _described(kind)) for name, kind in topologies.available().items()),
    )
    _section(
        console,
        "metrics that claims may name (docs/metrics.md)",
        (
            (metric.pattern, f"{metric.title} ({metric.unit.name})")
            for metric in metrics.available().values()
            if metric.of.claimed
        ),
    )
    _section(
        console,
        "layer profiles",
        ((one_line(name), _said(partial(_profile, name))) for name in profiles.available()),
    )
    _section(
        console,
        "flow sizes",
        ((one_line(name), _said(partial(_size, name))) for name in sizes.available()),
    )


def shape_of(name: str) -> str:
    """How many of 21 jobs' servers each host holds."""
    if name in SERVERS_BY_RACK:
        return "on hosts that workers leave, " + (
            "rack by rack" if name == "racks-packed" else "one of each rack in turn"
        )
    return " + ".join(str(jobs) for jobs in PLACEMENTS[name](21, 21) if jobs)


def _experiments() -> Iterable[tuple[str, str]]:
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        yield f"experiments/{one_line(path.name)}", _said(partial(_question, path))


def _question(path: Path) -> str:
    if "sweep" not in read(path).data:
        return load(path).question
    grid = sweep_file.load(path)
    return f"{grid.first.question} (giveway sweep, {grid.runs} runs)"


def _profile(name: str) -> str:
    return profiles.load(name).provenance


def _size(name: str) -> str:
    cdf = sizes.available()[name]
    return f"{cdf.source} (mean {cdf.mean_byte / 1000:,.0f} kB)"


def _said(of: Callable[[], str]) -> str:
    """What a file says of itself; of one that cannot be used, why."""
    try:
        return of()
    except BadInput as error:
        return f"cannot be used: {one_line(str(error).splitlines()[0])}"


def _described(kind: topologies.Kind) -> str:
    """The first line of the topology's file, and the keys that it has of its own."""
    module = importlib.import_module(kind.build.__module__)
    first_line = (module.__doc__ or "").strip().split("\n")[0]
    return "\n  ".join([first_line, *options.described(kind.options)])


def _described_policy(policy: LinkPolicy | TransferPolicy | Scheduler) -> str:
    return "\n  ".join([policy.description, *options.described(policy.options)])


def _section(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = FoldingTable(
        title=title, title_justify="left", show_header=False, box=None, padding=(0, 2)
    )
    table.add_column(style="bold")
    table.add_column()
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    console.print(table)
    console.print()
