"""docs/reproductions.md: every entry with its numbers, written by the command, not by people."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.views import Panel
from basics.files import write_whole
from testbed.reproduce.run import HEADER, Reproduced, words_of

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = "reproductions.md"
PICTURES = "reproductions"
LONG = 12  # rows: a longer table is folded away


@dataclass(frozen=True)
class Written:
    """What the page says of an entry: its row of the first table, and its section."""

    row: str
    section: str


def write(outcomes: Sequence[Reproduced], order: Sequence[str], docs: Path = DOCS) -> Path:
    """The page and its pictures with these entries anew; what it says of others stays.

    Some entries take hours: nobody has to run them all to mend one.
    """
    pictures = docs / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        for file, svg in drawn(outcome):
            write_whole(pictures / file, svg)
    path = docs / PAGE
    parts = parts_of(path) | {
        outcome.name: Written(_row(_summary(outcome)), "\n".join(section(outcome)))
        for outcome in outcomes
    }
    write_whole(path, "\n".join(page(parts, order)) + "\n")
    return path


def parts_of(path: Path) -> dict[str, Written]:
    """What a page that is there says of every entry."""
    if not path.exists():
        return {}
    head, *rest = re.split(r"^## (\S+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = {line.partition("]")[0]: line for line in head.splitlines() if line.startswith("| [")}
    return {
        name: Written(rows[f"| [{name}"], f"## {name}\n{body.rstrip()}")
        for name, body in zip(rest[::2], rest[1::2], strict=True)
    }


def page(parts: dict[str, Written], order: Sequence[str]) -> Iterable[str]:
    yield "# Reproductions"
    yield "Written by `giveway reproduce --all --write-docs`, or entry by entry (a name instead of"
    yield "`--all`): do not edit it by hand. Every number has the"
    yield "command that made it beside it. Tolerances and their reasons stand in the files of the"
    yield "entries, in `experiments/reproduce/`; where a set-up was changed after a look at its"
    yield "numbers, the entry's note says so."
    yield ""
    yield from _table(("entry", "source", "numbers reproduced", "engine"), [])
    yield from (parts[name].row for name in order if name in parts)
    if missing := [name for name in order if name not in parts]:
        yield ""
        yield f"Not run for this page: {', '.join(missing)}."
    for name in order:
        if name in parts:
            yield ""
            yield parts[name].section


def section(outcome: Reproduced) -> Iterable[str]:
    yield f"## {outcome.name}"
    yield f"{outcome.entry.source}: {outcome.entry.shows}. `{outcome.command}`"
    if outcome.entry.note:
        yield ""
        yield outcome.entry.note
    if not outcome.verdicts:
        yield ""
        yield "No published numbers are at hand: these are ours alone."
    else:
        yield ""
        yield from _table(HEADER, [words_of(verdict) for verdict in outcome.verdicts])
        yield ""
        reasons = dict.fromkeys(
            f"- {verdict.target.tolerance_text} for {verdict.target.what}: {verdict.target.reason}."
            for verdict in outcome.verdicts
        )
        yield "Tolerances:"
        yield from reasons
        whys = dict.fromkeys(
            f"- {verdict.target.what}: {verdict.target.why}."
            for verdict in outcome.verdicts
            if verdict.target.why and verdict.status != "reproduced"
        )
        if whys:
            yield ""
            yield "Why they differ:"
            yield from whys
    for number, panel in enumerate(outcome.panels):
        yield ""
        yield f"### {panel.title}"
        if panel.note:
            yield panel.note
        for at, picture in enumerate(panel.pictures):
            alt = re.search(r'aria-label="([^"]*)"', picture.svg)
            text = alt[1].replace("[", "(").replace("]", ")") if alt else panel.title
            yield ""
            yield f"![{text}]({PICTURES}/{_file(outcome.name, number, at)})"
        yield from _folded(panel)


def _folded(panel: Panel) -> Iterable[str]:
    if not panel.rows:
        return
    yield ""
    if len(panel.rows) > LONG:
        yield f"<details><summary>{len(panel.rows)} rows</summary>"
        yield ""
    yield from _table(panel.header, panel.rows)
    if len(panel.rows) > LONG:
        yield ""
        yield "</details>"


def drawn(outcome: Reproduced) -> Iterable[tuple[str, str]]:
    for number, panel in enumerate(outcome.panels):
        for at, picture in enumerate(panel.pictures):
            # A picture of its own has no page around it whose colours it could take.
            yield (
                _file(outcome.name, number, at),
                re.sub(r"var\(--[\w-]+, (#\w+)\)", r"\1", picture.svg),
            )


def _summary(outcome: Reproduced) -> tuple[str, ...]:
    name = f"[{outcome.name}](#{_anchor(outcome.name)})"
    return name, outcome.entry.source, _score(outcome), outcome.engine


def _score(outcome: Reproduced) -> str:
    if not outcome.verdicts:
        return "ours alone"
    held = sum(verdict.status == "reproduced" for verdict in outcome.verdicts)
    return f"{held} of {len(outcome.verdicts)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + " --- |" * len(header)
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _file(name: str, panel: int, picture: int) -> str:
    return f"{_anchor(name)}-{panel}-{picture}.svg"


def _anchor(name: str) -> str:
    """As the usual renderers make it of a heading."""
    return re.sub(r"[^a-z0-9 -]", "", name.lower()).replace(" ", "-")
