"""What somebody does first with an installed Giveway, from an empty folder: the same everywhere."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence

from testbed import __version__
from tests.conftest import REPOSITORY

Done = subprocess.CompletedProcess[str]
# A program of the environment that Giveway is installed in, with its arguments and variables, in
# the empty folder.
Started = Callable[[Sequence[str], dict[str, str]], Done]
QUICKSTART = ("run", "quickstart", "--engine", "fluid", "--seed", "0", "--out")
SHEET = "lab: 1\nname: Ada Lovelace\nanswers:\n  alone: {{predicted: 1 ms, measured: {}}}\n"


def look_around(start: Started) -> None:
    """Commands that run nothing, and leave nothing behind."""
    for words, expected in {
        ("--version",): f"giveway {__version__}",
        ("list",): "quickstart.yaml",
        ("reproduce",): "thesis/figure-4.7",
        ("doctor",): "fluid",
        ("lab", "sheet", "1", "--name", "Ada Lovelace"): "giveway run labs/rack.yaml",
    }.items():
        assert expected in said(start(["giveway", *words], {}))
    # As `--install-completion` asks, which looks for the shell that it was called from.
    script = said(start(["giveway"], {"_GIVEWAY_COMPLETE": "source_bash"}))
    assert "complete -o default -F _giveway_completion giveway" in script
    asked = {"_GIVEWAY_COMPLETE": "complete_bash", "COMP_WORDS": "giveway rep", "COMP_CWORD": "1"}
    assert said(start(["giveway"], asked)).split() == ["reproduce", "report"]
    assert said(start(["python", "-m", "giveway", "--version"], {})) == f"giveway {__version__}\n"


def simulate(start: Started) -> str:
    """A run, its trace, its figures, a sheet that is graded, the notebook; returns the digest."""
    told = said(start(["giveway", *QUICKSTART, "first"], {}))
    assert "first/fifo/seed-0/trace.json" in said(
        start(["giveway", "export", "first", "--perfetto"], {})
    )
    drawn = said(start(["giveway", "report", "first", "--figures", "figures"], {}))
    assert "files in figures" in drawn
    same = said(start(["giveway", "compare", "first", "first"], {}))
    assert "2 of 2 runs that both have are the same" in same
    write = "import sys; open('ada.yaml', 'w').write(sys.argv[1])"
    said(start(["python", "-c", write, SHEET.format("0.3 s")], {}))
    graded = start(["giveway", "lab", "check", "1", "ada.yaml"], {})
    assert graded.returncode == 1, graded.stderr  # most of it is missing, and this is wrong
    assert "Lab 1: Who waits for whom, Ada Lovelace" in graded.stdout
    said(start(["python", "-c", notebook()], {}))
    return digest(told)


def notebook() -> str:
    """The code of docs/api.ipynb, as Jupyter would run it, without Jupyter."""
    cells = json.loads((REPOSITORY / "docs" / "api.ipynb").read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def digest(told: str) -> str:
    [found] = re.findall(r"^digest: (\w{64})$", told, re.MULTILINE)
    return str(found)


def said(done: Done) -> str:
    """What a command printed, which must have gone well."""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
