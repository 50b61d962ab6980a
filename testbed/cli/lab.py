"""`giveway lab`: a sheet for a student, and what a sheet is worth (labs/README.md)."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from basics.folding import FoldingTable
from testbed.labs import grading, sheet
from testbed.progress import Progress
from testbed.spec import load

ENGINE = "fluid"
INCOMPLETE = 1


def add_to(app: typer.Typer, console: Console) -> None:
    labs = typer.Typer(no_args_is_help=True, help="Exercises for a course: sheets, and checks.")
    app.add_typer(labs, name="lab")

    @labs.command("sheet")
    def sheet_(
        number: Annotated[int, typer.Argument(help="of the lab")],
        name: Annotated[str, typer.Option(help="yours: your numbers come from it")],
    ) -> None:
        """Print a sheet to fill in, with the commands that have your seed.

        Example: giveway lab sheet 1 --name "Ada Lovelace" > ada.yaml
        """
        print(sheet.blank(sheet.lab(number), name), end="")

    @labs.command()
    def check(
        number: Annotated[int, typer.Argument(help="of the lab")],
        answers: Annotated[Path, typer.Argument(help="a sheet that is filled in")],
    ) -> None:
        """Say what a sheet is worth, without giving an answer away.

        Example: giveway lab check 1 ada.yaml
        """
        asked = sheet.lab(number)
        given = sheet.read(answers, number)
        table = FoldingTable(
            title=escape(f"Lab {number}: {asked.title}, {given.student}"), title_justify="left"
        )
        for column in ("answer", "points", ""):
            table.add_column(column)
        with tempfile.TemporaryDirectory(prefix="giveway-lab-") as folder:
            found = list(grading.graded(asked, given, _playing(Path(folder))))
        for one in found:
            points = f"{one.points} of {one.most}" if one.most else ""
            table.add_row(one.name, points, escape(one.said))
        total, most = sum(one.points for one in found), sum(one.most for one in found)
        console.print(table)
        console.print(f"{total} of {most} points, besides what your teacher reads")
        if total < most:
            raise typer.Exit(INCOMPLETE)


def _playing(folder: Path) -> grading.Play:
    """Runs steps; two steps of the same run are one run."""
    from testbed.run import run_experiment

    @cache
    def played(settings: tuple[str, ...], seed: int) -> Path:
        experiment = load(sheet.RACK, [*settings, f"seeds=[{seed}]"])
        out = folder / str(len(list(folder.iterdir())))
        progress = Progress(Console(quiet=True), len(experiment.arms))
        run_experiment(experiment, out, ENGINE, "giveway lab check", progress)
        return out

    return lambda step, seed: played(step.settings, seed)
