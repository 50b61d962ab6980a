"""What a command says at its end: to people, and to programs that asked (docs/ci.md)."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from basics import command
from basics.errors import GivewayError
from basics.files import write_whole
from basics.folding import FoldingTable
from testbed.cli import places
from testbed.cli.expected import Expected

if TYPE_CHECKING:
    from analysis.sweep import Grid

FAILS = 1
WHOLE = 20  # characters of a name that stay in one line
MOST_ROWS = 64  # of a sweep's table in the terminal

AsJson = Annotated[
    bool, typer.Option("--json", help="results as JSON on stdout; all else goes to stderr")
]
AsJunit = Annotated[
    Path | None, typer.Option("--junit", help="claims and runs as JUnit XML: a .xml file")
]


@dataclass(frozen=True)
class Told:
    """Who is told: people by a console, programs by JSON on standard output and by JUnit's XML."""

    console: Console
    as_json: bool = False
    junit: Path | None = None

    @staticmethod
    def to(console: Console, as_json: bool, junit: Path | None) -> "Told":
        """Refuses a file that cannot be written; what people read makes way for JSON."""
        if junit is not None:
            places.demand_file("--junit", junit, ".xml")
        quiet = console.quiet
        return Told(Console(stderr=True, quiet=quiet) if as_json else console, as_json, junit)

    @contextmanager
    def failing(self, name: str) -> Iterator[None]:
        """What fails on the way is in JUnit's file too, so that none of an earlier run stays."""
        try:
            yield
        except (GivewayError, OSError) as error:
            if self.junit is not None:
                from analysis.machines import CiCase, junit

                failed = (str(error).splitlines() or ["no message"])[0]
                write_whole(self.junit, junit(name, [CiCase(name, "run", failed, kind="error")]))
            raise

    def line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def run(self, out: Path, expected: Expected | None = None) -> None:
        """The comparison table, the claims, the answer, where the report is.

        Exit code 1 if a claim does not hold, or the records are not those that were expected.
        """
        from analysis import absent, machines
        from analysis.claims import told_all
        from analysis.tables import for_terminal

        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        self.console.print(for_terminal(summary))
        for told in told_all(summary):
            self.line(str(told))
        self.line(str(summary["answer"]))
        for sentence in [] if absent.fits_answer(summary) else absent.told(summary):
            self.line(sentence)
        for label, seeds in summary["digests"].items() if command.wordy() else ():
            verdicts = summary["policies"][label]["fidelity"]["by_seed"]
            for seed, of_run in seeds.items():
                self.line(f"{label}, seed {seed}: {verdicts[seed]}, digest {of_run}")
        self.line(f"report: {out / 'report.html'}")
        self.line(f"digest: {summary['digest']}")
        other = expected.complaints(out, summary["digest"]) if expected else []
        failed = sum(not claim["holds"] for claim in summary["claims"])
        code = FAILS if other or failed else 0
        cases = list(machines.run_cases(summary))
        if expected is not None:
            cases.append(
                machines.CiCase(summary["name"], f"digest {expected.given}", "; ".join(other))
            )
        if self.junit is not None:
            write_whole(self.junit, machines.junit(summary["name"], cases))
        if self.as_json:
            print_json(machines.run_document(out, summary, code))
        for one in other:
            complain(one)
        if failed:
            complain(f"claims that fail: {failed} of {len(summary['claims'])}")
        if code:
            raise typer.Exit(code)

    def sweep(self, out: Path) -> None:
        """The points in a table, the claims, where the report is.

        Exit code 1 if a claim fails at any point.
        """
        from analysis import machines, sweep_words
        from analysis.sweep import load

        grid = load(out)
        self.console.print(points_table(grid))
        claims = sweep_words.told_claims(grid)
        for said in (*(said for _, said in claims), *sweep_words.told_absent(grid)):
            self.line(said)
        self.line(f"table: {out / 'summary.parquet'}")
        self.line(f"report: {out / 'report.html'}")
        failed = sum(not holds for holds, _ in claims)
        code = FAILS if failed else 0
        if self.junit is not None:
            write_whole(self.junit, machines.junit(grid.name, machines.sweep_cases(grid)))
        if self.as_json:
            print_json(machines.sweep_document(grid, code))
        if failed:
            complain(f"claims that fail: {failed} of {len(claims)}")
            raise typer.Exit(code)


def points_table(grid: "Grid") -> FoldingTable:
    from analysis import sweep_report
    from analysis.tables import STYLES

    headline = sweep_report.headline_metrics(grid)
    shown = FoldingTable(title=escape(grid.name), title_justify="left", caption_justify="left")
    named = {axis.name: axis.labels for axis in grid.axes} | {"policy": grid.policies}
    for name, labels in named.items():
        longest = max(map(len, (name, *labels)))
        shown.add_column(escape(name), min_width=min(longest, WHOLE))  # numbers make room first
    for column in headline.values():
        shown.add_column(column.title, justify="right")
    rows = sweep_report.point_rows(grid, headline)
    for row in rows[:MOST_ROWS]:
        cells = []
        for cell in row["cells"]:
            style = STYLES.get(cell["verdict"], "default")
            change = f" [{style}]{cell['change']}[/{style}]" if cell["change"] else ""
            cells.append(cell["value"] + change)
        shown.add_row(*map(escape, row["at"]), escape(row["label"]), *cells)
    if len(rows) > MOST_ROWS:
        shown.caption = f"{len(rows) - MOST_ROWS} more rows are in summary.parquet."
    return shown


def print_json(document: dict[str, object]) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def complain(text: str) -> None:
    print(f"giveway: {text}", file=sys.stderr)
