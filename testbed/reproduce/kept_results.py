"""What an engine gave at all or some points of an entry, as a file that can be kept with it.

A run on a real kernel takes minutes; whoever writes docs/reproductions.md need not repeat it. The
command that made the file stands in it: the same one leaves it in OUT/NAME again, as beside.json,
or as kept.json if it is the entry's own engine.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sweep import Grid
from basics.errors import BadInput
from basics.files import write_whole
from testbed.reproduce.entry import Entry

OWN, OTHER = "kept.json", "beside.json"
COLUMNS = ("value", "low", "high", "change", "change_low", "change_high",
           "reduction_thesis", "reduction_thesis_low", "reduction_thesis_high")  # fmt: skip

Question = tuple[str, str, str, str]  # title, metric, policy, column


@dataclass(frozen=True)
class Kept:
    engine: str
    command: str
    set: tuple[str, ...]
    digests: tuple[str, ...]  # of each place
    places: tuple[dict[str, str], ...]
    questions: tuple[Question, ...]
    table: pd.DataFrame


def of(entry: Entry, grid: Grid, set_: tuple[str, ...]) -> Kept:
    """What the views and the published numbers of the entry ask for, answered by a sweep."""
    names = [axis.name for axis in grid.axes]
    asked = tuple(questions(entry, grid))
    wanted = {(metric, policy) for _, metric, policy, _ in asked}
    table = grid.table
    chosen = [pair in wanted for pair in zip(table["metric"], table["policy"], strict=True)]
    return Kept(
        grid.engine,
        grid.command,
        set_,
        tuple(str(summary["digest"]) for summary in grid.summaries.values()),
        tuple(dict(zip(names, labels, strict=True)) for labels in grid.points),
        asked,
        table[chosen][[*names, "policy", "metric", *COLUMNS]],
    )


def questions(entry: Entry, grid: Grid) -> Iterator[Question]:
    """Every metric that is shown or was published, under each policy, the way it is shown."""
    seen = set()
    maps = [(v.title, v.metric, v.of[:1], v.value) for v in entry.views if v.kind == "map"]
    lines = [(v.title, v.metric, v.of, v.value) for v in entry.views if v.kind == "lines"]
    published = [(p.title, p.metric, (p.of,), p.kind) for p in entry.published]
    for title, metric, of_policies, column in (*maps, *lines, *published):
        for policy in of_policies or grid.policies:
            key = (metric, policy, column)
            first = policy == grid.policies[0] and column != "value"
            if key not in seen and not first and policy in grid.policies:
                seen.add(key)
                named = title if len(of_policies) == 1 and maps else f"{title}, {policy}"
                yield named, metric, policy, column


def write(found: Kept, path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in found.table.to_dict("records")
    ]
    plain = {
        "engine": found.engine,
        "command": found.command,
        "set": found.set,
        "digests": found.digests,
        "places": found.places,
        "questions": found.questions,
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, json.dumps(plain, indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Kept:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return Kept(
            raw["engine"],
            raw["command"],
            tuple(raw["set"]),
            tuple(raw["digests"]),
            tuple(raw["places"]),
            tuple((str(a), str(b), str(c), str(d)) for a, b, c, d in raw["questions"]),
            pd.DataFrame(raw["rows"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadInput(f"{path}: cannot be read ({problem})") from problem
