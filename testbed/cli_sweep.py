"""`giveway sweep`: an experiment file over a grid of settings."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from testbed import engines, sweepspec
from testbed.progress import OneBar
from testbed.spechosts import DOCKER

INTERRUPTED = 130
HOUR_S = 3600.0
MOST_ROWS = 64  # of the table in the terminal


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command()
    def sweep(
        file: Annotated[Path, typer.Argument(help="an experiment file with a sweep: block")],
        out: Annotated[
            Path | None, typer.Option(help="where to put the results; the same again goes on there")
        ] = None,
        engine: Annotated[str, typer.Option(help=engines.CHOICE)] = engines.AUTO,
        set_: Annotated[
            list[str] | None, typer.Option("--set", help="override a key: seeds=[0]")
        ] = None,
        yes: Annotated[
            bool, typer.Option("--yes", help=f"allow more than {sweepspec.MOST_RUNS} runs")
        ] = False,
        wait: Annotated[
            bool, typer.Option("--wait", help="wait for another realtime run, up to an hour")
        ] = False,
    ) -> None:
        """Run an experiment at every point of its sweep, and write one report of all.

        Interrupt it and give the same command again: what is finished is kept.

        Example: giveway sweep experiments/thesis-grid.yaml --engine fluid --out runs/grid
        """
        engines.resolve(engine)  # a mistyped name is said first
        grid = sweepspec.load(file, set_ or (), any_size=yes)
        engine = engines.resolve(engine, containers=grid.first.hosts == DOCKER)
        out = out or Path("runs") / f"{grid.first.name}-{engine}"
        from testbed.sweep import run_sweep  # Mininet, only where a run needs it

        command = "giveway " + shlex.join(sys.argv[1:])
        try:
            run_sweep(grid, out, engine, command, lambda runs: OneBar(console, runs), HOUR_S * wait)
        except KeyboardInterrupt:
            print(
                "giveway: interrupted; finished runs are kept, the same command goes on from there",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
        show(console, out)


def show(console: Console, out: Path) -> None:
    """The points in a table, where the report is; exit code 1 if a claim fails at any point."""
    from analysis import sweep_report
    from analysis.sweep import load
    from analysis.tables import STYLES

    grid = load(out)
    headline = sweep_report.headline_metrics(grid)
    shown = Table(title=escape(grid.name), title_justify="left", caption_justify="left")
    for name in (*(axis.name for axis in grid.axes), "policy"):
        shown.add_column(escape(name))
    for title in headline.values():
        shown.add_column(title, justify="right")
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
    console.print(shown)
    for line in (
        f"table: {out / 'summary.parquet'}",
        f"report: {out / 'report.html'}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    failed = sweep_report.failed_claims(grid)
    for claim in failed:
        print(f"giveway: {claim}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)
