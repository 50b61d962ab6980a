"""`python -m bench.agreement`: run every cell on the fluid engine and write docs/agreement.md.

Its short form is a block of docs/fluid.md, written with it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from analysis import agreement
from basics.errors import BadInput, GivewayError
from basics.files import write_json
from bench.agreement import noise
from bench.agreement.cells import CELLS, REPOSITORY
from bench.agreement.compared import Compared
from bench.agreement.page import page
from bench.agreement.playing import LAST_CHANGE, REFERENCE, played, reference, referenced
from scripts import blocks

PAGE = REPOSITORY / "docs" / "agreement.md"
SHORT_PAGE = REPOSITORY / "docs" / "fluid.md"
SHORT_BLOCK = "agreement"


def main(
    virtual: Annotated[
        bool, typer.Option("--virtual", help="also make the reference, minutes a cell")
    ] = False,
    runs: Annotated[
        Path, typer.Option(help="where virtual runs are kept; finished ones are taken as they are")
    ] = Path("runs/agreement"),
    again: Annotated[
        bool, typer.Option("--noise", help="also play some cells again with hardly another delay")
    ] = False,
    cell: Annotated[
        list[str] | None, typer.Option(help="with --virtual: only this one (repeatable)")
    ] = None,
) -> None:
    """Compare the fluid engine with the virtual one and write docs/agreement.md."""
    try:
        if virtual:
            make_reference(runs, cell or [cell.name for cell in CELLS])
        if again:
            noise.make(runs, say)
        text = written()
        PAGE.write_text(text)
        blocks.write(SHORT_PAGE, SHORT_BLOCK, in_short(text))
    except GivewayError as error:
        print(f"agreement: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    for path in (PAGE, SHORT_PAGE):
        print(f"written: {path.relative_to(REPOSITORY)}")


def make_reference(runs: Path, names: list[str]) -> None:
    known = {cell.name: cell for cell in CELLS}
    kept = reference() if REFERENCE.exists() else {}
    for name in names:
        if name not in known:
            raise BadInput(f"--cell {name}: unknown; there are {', '.join(known)}")
        kept[name] = referenced(known[name], runs / name, say)
        ordered = {cell.name: kept[cell.name] for cell in CELLS if cell.name in kept}
        write_json(REFERENCE, ordered)


def written() -> str:
    """The page, as the current code gives it."""
    kept = reference()
    compared = []
    with TemporaryDirectory(prefix="giveway-agreement-") as folder:
        for cell in CELLS:
            if cell.name not in kept:
                say(f"{cell.name}: no reference yet, left out (--virtual makes it)")
                continue
            results = played(cell, "fluid", Path(folder) / cell.name, say)
            fluid = agreement.measured(results)
            is_new = kept[cell.name].get("after") == LAST_CHANGE
            compared.append(Compared(cell, kept[cell.name]["policies"], fluid, is_new))
    return page(compared)


def in_short(text: str) -> str:
    """What other pages show of it: the last table of its first section."""
    return text.split("## In short\n")[1].split("\n## ")[0].strip().split("\n\n")[-1]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(main)
