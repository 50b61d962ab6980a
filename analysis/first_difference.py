"""Where two runs that should be the same part ways: the earliest record that differs.

What differs first in time is nearest to the cause; everything after it may be its consequence.
Tables that the digest leaves out are looked at too: a layer that computed late shows before the
iteration that it delayed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.folder import Results, SealedRun

# What tells one row of a table from another.
KEYS = {
    "computes": ["job", "worker", "iteration", "phase", "layer"],
    "transfers": ["job", "worker", "iteration", "transfer"],
    "iterations": ["job", "worker", "iteration"],
    "flows": ["flow"],
    "stretches": ["job", "task", "taken_ns"],
}


@dataclass(frozen=True)
class RecordPair:
    """A record that is not the same in two runs, or that only one of them has."""

    run: str
    table: str
    who: str
    time_ns: int
    column: str  # none: only one of the runs has the record
    values: tuple[Any, Any]

    def __str__(self) -> str:
        where = f"{self.run}: {self.table}.parquet, {self.who}, at {self.time_ns} ns"
        first, second = ("none" if value is None else str(value) for value in self.values)
        if not self.column:
            return f"{where}: only in the {'first' if self.values[0] else 'second'} folder"
        return f"{where}: {self.column} is {first} and {second}"


def in_folders(first: Results, second: Results) -> list[RecordPair]:
    """The first difference of each run that both have and whose digests differ."""
    found = []
    for at, run in first.runs.items():
        other = second.runs.get(at)
        if other is None or run.manifest.get("digest") == other.manifest.get("digest"):
            continue
        earliest = in_runs(run, other)
        if earliest is not None:
            found.append(earliest)
    return found


def in_runs(run: SealedRun, other: SealedRun) -> RecordPair | None:
    """The earliest record that differs; None if all that is looked at is the same."""
    name = f"{run.label}, seed {run.seed}"
    every = [
        pair
        for table, keys in KEYS.items()
        for pair in _differences(name, table, keys, run.table(table), other.table(table))
    ]
    return min(every, key=lambda pair: pair.time_ns, default=None)


def _differences(
    run: str, table: str, keys: list[str], first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[RecordPair]:
    """At most one of a table: the earliest."""
    if first.equals(second):
        return
    joined = first.merge(
        second, on=keys, how="outer", suffixes=("", "_second"), indicator="_in", validate="1:1"
    )
    columns = [name for name in first.columns if name not in keys]
    unequal = pd.DataFrame(
        {
            name: (joined[name] != joined[f"{name}_second"])
            & ~(joined[name].isna() & joined[f"{name}_second"].isna())
            for name in columns
        }
    )
    times = [name for name in first.columns if name.endswith("_ns")]
    when = pd.DataFrame(
        {
            name: joined[[name, f"{name}_second"]].min(axis=1).where(unequal[name])
            if name in columns
            else joined[name].where(joined["_in"] != "both")
            for name in times
        }
    ).min(axis=1)
    # A row that differs in something without a time is placed at its own earliest time.
    own = joined[[name for name in joined.columns if name.endswith(("_ns", "_ns_second"))]]
    when = when.fillna(own.min(axis=1)).where(unequal.any(axis=1))
    if not when.notna().any():
        return
    at = int(np.nanargmin(when.to_numpy(dtype=float)))
    row = joined.iloc[at]
    who = " ".join(
        str(row[key]) if key in ("job", "phase") else f"{key} {row[key]}" for key in keys
    )
    time_ns = int(when.iloc[at])
    if row["_in"] != "both":
        here = bool(row["_in"] == "left_only")
        yield RecordPair(run, table, who, time_ns, "", (here, not here))
        return
    differing = [name for name in columns if bool(unequal[name].iloc[at])]
    earliest = [
        name for name in differing if time_ns in (row[name], row[f"{name}_second"])
    ] or differing
    values = (_plain(row[earliest[0]]), _plain(row[f"{earliest[0]}_second"]))
    yield RecordPair(run, table, who, time_ns, earliest[0], values)


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
