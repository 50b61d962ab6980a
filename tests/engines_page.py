"""Writes docs/engines.md, keys against engines, from the table that the tests hold.

.venv/bin/python -m tests.engines_page
"""

from collections.abc import Iterable

from tests.conftest import REPOSITORY
from tests.settings_table import JOB_ROWS, ROWS, Analysis, Cell, Changes, Effect

PAGE = REPOSITORY / "docs" / "engines.md"

HEAD = """\
# What every engine does with every key
Written by `.venv/bin/python -m tests.engines_page` from `tests/settings_table.py`; tests hold it,
and each of its cells, to what the code does. Do not edit.

No setting is silently ignored. A key works, and the table says where that shows; or it is refused
in one line, before anything is started: with exit code 2 if it can never make sense, with 3 if
another engine or machine could do it. *Analysis* means that no engine heeds the key: it is for
those who read the results. A default that is written out (`offload: auto`) is never refused, so the
resolved `experiment.yaml` of a run folder runs on every engine that can play the rest of it.

A key without a row here, or a row without a key, makes `tests/test_settings.py` fail.

## Keys and engines
"""

JOBS = """
## Keys of a job and kinds of job
The same on both live engines; the simulation has rings and parameter servers, and refuses the rest.
"""

HOSTS = """
## Kinds of hosts
`hosts: docker` changes what a host is and nothing else: its network, its tasks and what they are
told are those of `hosts: namespaces`. `container` is refused beside `hosts: namespaces`.
"""


def page() -> str:
    keys = table(
        ("key", "realtime", "virtual", "fluid"),
        ([f"`{row.key}`", *unrepeated(map(said, row.cells.values()))] for row in ROWS),
    )
    jobs = table(
        ("key", "ring", "parameter-server", "torch", "horovod"),
        ([f"`{row.key}`", *(said((effect,)) for effect in row.cells.values())] for row in JOB_ROWS),
    )
    return f"{HEAD}{keys}{JOBS}{jobs}{HOSTS}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def unrepeated(cells: Iterable[str]) -> list[str]:
    first, *others = cells
    return [first, *("the same" if cell == first else cell for cell in others)]


def said(cell: Cell) -> str:
    return "; ".join(map(word, cell))


def word(effect: Effect) -> str:
    if isinstance(effect, Changes):
        return effect.shows
    if isinstance(effect, Analysis):
        return f"*analysis*: {effect.shows}"
    return f"**refused** ({effect.code}): {effect.what}"


if __name__ == "__main__":
    PAGE.write_text(page())
