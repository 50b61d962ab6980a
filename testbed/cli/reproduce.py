"""`giveway reproduce`: published results, run again and compared number by number."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from basics.folding import FoldingTable
from testbed import engines
from testbed.cli import places
from testbed.cli.sweep import INTERRUPTED
from testbed.progress import OneBar

if TYPE_CHECKING:
    from testbed.reproduce.run import Reproduced

OUT = Path("runs") / "reproduce"
STYLES = {"reproduced": "green", "differs": "red", "missing": "red"}
MOST_ROWS = 60
INDENT = (0, 0, 0, 4)


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command()
    def reproduce(
        names: Annotated[
            list[str] | None, typer.Argument(help="what to reproduce; nothing lists everything")
        ] = None,
        engine: Annotated[
            str | None, typer.Option(help=f"another engine than the entry's: {engines.CHOICE}")
        ] = None,
        out: Annotated[Path, typer.Option(help="where results go, and are kept for others")] = OUT,
        all_: Annotated[bool, typer.Option("--all", help="every entry")] = False,
        beside: Annotated[
            bool, typer.Option("--beside", help="also some points on another engine (slow)")
        ] = False,
        write_docs: Annotated[
            bool, typer.Option("--write-docs", help="write what docs/reproductions.md says of them")
        ] = False,
    ) -> None:
        """Run published results again: their numbers beside ours.

        Example: giveway reproduce thesis/figure-4.7
        """
        from testbed.reproduce import entry

        if engine is not None:
            engines.resolve(engine)
        chosen = entry.names() if all_ else names or []
        if not chosen:
            listed(console)
            return
        for name in chosen:
            entry.load(name)  # a mistyped name is said first
        places.demand_folder(out)
        run_all(console, chosen, out, engine, beside=beside, write_docs=write_docs)


def run_all(
    console: Console,
    names: list[str],
    out: Path,
    engine: str | None,
    *,
    beside: bool,
    write_docs: bool,
) -> None:
    from testbed.reproduce import entry, page
    from testbed.reproduce.run import reproduce

    outcomes = []
    try:
        for name in names:
            both = beside and (len(names) == 1 or entry.load(name).beside is not None)
            own = None if entry.load(name).compute and len(names) > 1 else engine
            outcomes.append(
                reproduce(name, out, own, lambda runs: OneBar(console, runs), beside=both)
            )
            show(console, outcomes[-1])
    except KeyboardInterrupt:
        print("giveway: interrupted; finished runs are kept", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if write_docs:
        print_line(console, f"page: {page.write(outcomes, entry.names())}")
    broken = [(outcome.name, verdict) for outcome in outcomes for verdict in outcome.broken]
    for name, verdict in broken:
        at = ", ".join(f"{axis} {label}" for axis, label in verdict.target.at.items())
        print(
            f"giveway: {name}: {verdict.target.what} ({at}) should hold and {verdict.status}"
            f"{' by ' + verdict.off_by if verdict.off_by else ''}",
            file=sys.stderr,
        )
    if broken:
        raise typer.Exit(1)


def listed(console: Console) -> None:
    """Each entry; whose result it is, once for several of one paper."""
    from testbed.reproduce import entry

    print_line(console, "giveway reproduce NAME")
    paper = ""
    for name in entry.names():
        found = entry.load(name)
        takes = f"{found.engine}, {found.takes}"
        if found.beside is not None:
            takes += f"; with --beside {found.beside.engine}, {found.beside.takes}"
        of = re.match(r'.*?".*?" \([^)]*\)', found.source)
        source = of[0] if of else found.source
        if source != paper:
            console.print(f"\n[dim]{escape(source)}[/dim]")
        paper = source
        # A name stands alone, so that it can be copied whatever the width.
        print_line(console, name)
        console.print(Padding(f"{escape(found.shows)} [dim]({takes})[/dim]", INDENT))


def show(console: Console, outcome: "Reproduced") -> None:
    from testbed.reproduce.run import HEADER, words_of

    print_line(console, f"{outcome.name}: {outcome.entry.shows}")
    if outcome.verdicts:
        table = FoldingTable(title=escape(outcome.entry.source), title_justify="left")
        for column in HEADER:
            table.add_column(column, justify="left" if column in ("number", "verdict") else "right")
        for verdict in outcome.verdicts:
            *cells, said = words_of(verdict)
            style = STYLES[verdict.status] if verdict.target.holds else "dim"
            table.add_row(*map(escape, cells), f"[{style}]{said}[/{style}]")
        console.print(table)
        for why in dict.fromkeys(
            v.target.why for v in outcome.verdicts if v.target.why and v.status == "differs"
        ):
            print_line(console, f"differs because: {why}")
    for panel in outcome.panels:
        if panel.rows:
            table = FoldingTable(title=escape(panel.title), title_justify="left")
            for column in panel.header:
                table.add_column(escape(column), justify="right")
            for row in panel.rows[:MOST_ROWS]:
                table.add_row(*map(escape, row))
            console.print(table)
    if outcome.entry.note:
        print_line(console, outcome.entry.note)
    print_line(console, f"page: {outcome.folder / 'report.html'}")


def print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
