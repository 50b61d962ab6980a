"""Everything that can be named in an experiment file or on the command line."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

import topologies
from analysis import metrics
from basics import options
from basics.errors import BadInput
from basics.folding import FoldingTable
from basics.hints import nearest
from policies.cluster import Scheduler, schedulers
from policies.cluster.placements import PLACEMENTS, SERVERS_BY_RACK
from policies.link import LinkPolicy, link_policies
from policies.transfer import TransferPolicy, transfer_policies
from testbed import engines
from testbed.spec import load, sweep_file
from testbed.spec.mistakes import one_line
from testbed.spec.yaml_file import read
from workloads import profiles, sizes, traces

FEWEST = 20  # letters of what is said of a name, however narrow the terminal is
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


Rows = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """What there is of one kind. `rows` has a name and all that is said of it, in lines."""

    title: str
    rows: Callable[[], Rows]


SECTIONS = {
    "experiments": Section("experiments: giveway run NAME, giveway sweep NAME", lambda: _files()),
    "engines": Section("engines: --engine NAME", lambda: engines.DESCRIPTIONS.items()),
    "policies": Section("link policies", lambda: _described_policies(link_policies())),
    "transfers": Section(
        "transfer policies (docs/transfer.md)", lambda: _described_policies(transfer_policies())
    ),
    "placements": Section(
        "placements of a cluster's jobs (docs/cluster.md)",
        lambda: _described_policies(schedulers()),
    ),
    "traces": Section(
        "formats of traces", lambda: ((name, one.source) for name, one in traces.formats().items())
    ),
    "servers": Section(
        "placements of parameter servers (most skewed first; with 21 jobs)",
        lambda: ((name, shape_of(name)) for name in (*PLACEMENTS, *SERVERS_BY_RACK)),
    ),
    "topologies": Section(
        "topologies",
        lambda: ((name, _described(kind)) for name, kind in topologies.available().items()),
    ),
    "metrics": Section(
        "metrics that claims may name (docs/metrics.md)",
        lambda: (
            (metric.pattern, f"{metric.title} ({metric.unit.name})")
            for metric in metrics.available().values()
            if metric.of.claimed
        ),
    ),
    "profiles": Section(
        "layer profiles",
        lambda: ((one_line(name), _said(partial(_profile, name))) for name in profiles.available()),
    ),
    "sizes": Section(
        "flow sizes",
        lambda: ((one_line(name), _said(partial(_size, name))) for name in sizes.available()),
    ),
}


def show(console: Console, what: Sequence[str] = ()) -> None:
    """Of everything a line, or all that there is to say of some kinds."""
    unknown = [name for name in what if name not in SECTIONS]
    if unknown:
        raise BadInput(f"list {unknown[0]}: unknown{nearest(unknown[0], SECTIONS)}")
    for name in what or SECTIONS:
        _section(console, SECTIONS[name], whole=bool(what))
    if not what:
        console.print(f"More, and options: giveway list WHAT. WHAT: {', '.join(SECTIONS)}")


def shape_of(name: str) -> str:
    """How many of 21 jobs' servers each host holds."""
    if name in SERVERS_BY_RACK:
        return "on hosts that workers leave, " + (
            "rack by rack" if name == "racks-packed" else "one of each rack in turn"
        )
    return " + ".join(str(jobs) for jobs in PLACEMENTS[name](21, 21) if jobs)


def _files() -> Rows:
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        yield one_line(path.name), _said(partial(_question, path))


def _question(path: Path) -> str:
    if "sweep" not in read(path).data:
        return load(path).question
    grid = sweep_file.load(path)
    return f"(sweep, {grid.runs} runs) {grid.first.question}"


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


def _described_policies(
    known: Mapping[str, LinkPolicy] | Mapping[str, TransferPolicy] | Mapping[str, Scheduler],
) -> Rows:
    for name, policy in known.items():
        yield name, "\n  ".join([policy.description, *options.described(policy.options)])


def _section(console: Console, section: Section, *, whole: bool) -> None:
    if not whole:
        _lines(console, section)
        return
    table = FoldingTable(
        title=section.title, title_justify="left", show_header=False, box=None, padding=(0, 2)
    )
    table.add_column(style="bold")
    table.add_column()
    for name, text in section.rows():
        table.add_row(Text(name), Text(text))
    console.print(table)
    console.print()


def _lines(console: Console, section: Section) -> None:
    """A line each: names whole, and of the rest what the width has room for."""
    rows = list(section.rows())
    longest = max((len(name) for name, _ in rows), default=0)
    console.print(Text(section.title, style="italic"))
    for name, text in rows:
        said = Text(text.split("\n")[0])
        said.truncate(max(FEWEST, console.width - longest - 4), overflow="ellipsis")
        line = Text.assemble("  ", (name.ljust(longest), "bold"), "  ", said)
        console.print(line, soft_wrap=True)
    console.print()
