#!/usr/bin/env python3
"""Every record that a checkout's simulation writes, to hold two checkouts against each other.

    scripts/records.py play CHECKOUT OUT FILE[@SEEDS[@POINTS]] ...
    scripts/records.py compare OUT OUT

FILE is one of the checkout's experiments, SEEDS how many of its seeds (default: all), POINTS the
numbers of a sweep's points, like 0,3 (default: all). A digest is of flows and iterations;
here all tables of TABLES count, row by row, in the order in which they were written. A run goes on
in this process, without report: that is most of what a short one costs. Any checkout since the
first simulation can be played, by whatever Python has the packages that it needs.
"""

import hashlib
import importlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLES = ("flows", "iterations", "transfers", "computes", "barriers", "links", "jobs")


def either(*names: str) -> Any:
    """A module of the checkout, under the first of these names that it has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"records.py: {Path.cwd()} has none of {', '.join(names)}")


def points_of(file: Path, numbers: list[int] | None) -> Iterator[tuple[str, Any]]:
    """(name, experiment) of a file, or of the points of its sweep."""
    if "\nsweep:" not in file.read_text():
        yield "", either("testbed.spec").load(file)
        return
    sweep = either("testbed.spec.sweep_file", "testbed.sweepspec").load(file, any_size=True)
    for number, point in enumerate(sweep.points):
        if numbers is None or number in numbers:
            yield "/".join(point.at.values()), point.experiment


def play(out: Path, asked: list[str]) -> None:
    engine, turns = either("testbed.fluid.engine"), either("testbed.run").in_turns
    tables = either("testbed.sealing", "testbed.seal").tables
    out.mkdir(parents=True, exist_ok=True)
    for one in asked:
        name, *more = one.split("@")
        numbers = [int(at) for at in more[1].split(",")] if more[1:] else None
        for point, experiment in points_of(Path("experiments") / name, numbers):
            engine.demand(experiment)
            setting = engine.settle(experiment, print, "records")
            seeds = experiment.seeds[: int(more[0])] if more else experiment.seeds
            for run in turns(experiment, "records"):
                if run.seed not in seeds:
                    continue
                found = engine.Records()
                engine.perform(run, setting, found, lambda _: None)
                records = tables(run, found.tables)
                rows = {table: [list(row) for row in records.get(table, [])] for table in TABLES}
                keep(out, (Path(name).stem, point, run.choice.label, run.seed), rows)


def keep(out: Path, what: tuple[str, str, str, int], rows: dict[str, list[Any]]) -> None:
    told = [rows["flows"], rows["iterations"]]
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()  # as in a run's manifest
    path = out / f"{hashlib.sha256(repr(what).encode()).hexdigest()[:12]}.pickle"
    path.write_bytes(pickle.dumps({"what": what, "digest": digest, "rows": rows}))
    print(*what, digest[:12], flush=True)


def compare(one: Path, other: Path) -> None:
    """A line for each run that both have: its digests, and where tables differ first.

    Then one for each file: its runs, the digests of their digests, and how many runs differ.
    """
    lines = []
    for path in one.glob("*.pickle"):
        if not (other / path.name).exists():
            continue
        here, there = (pickle.loads((at / path.name).read_bytes()) for at in (one, other))
        told = [
            f"{table}: {difference(here['rows'][table], there['rows'][table])}"
            for table in TABLES
            if here["rows"][table] != there["rows"][table]
        ]
        digests = here["digest"][:12], there["digest"][:12]
        lines.append((here["what"], *digests, "; ".join(told) or "same"))
    lines.sort()
    for what, *rest in lines:
        print(*what, *rest)
    for file in sorted({line[0][0] for line in lines}):
        mine = [line for line in lines if line[0][0] == file]
        before, after = (
            hashlib.sha256(" ".join(line[side] for line in mine).encode()).hexdigest()[:12]
            for side in (1, 2)
        )
        unlike = sum(line[1] != line[2] for line in mine)
        print(f"| {file} | {len(mine)} | {before} | {after} | {unlike} |")


def difference(here: list[Any], there: list[Any]) -> str:
    if sorted(map(json.dumps, here)) == sorted(map(json.dumps, there)):
        return "the same rows in another order"
    unlike = [a != b for a, b in zip(here, there, strict=False)]
    at = unlike.index(True) if any(unlike) else len(unlike)
    count = sum(unlike) + abs(len(here) - len(there))
    return f"{count} of {len(here)} rows, first {here[at : at + 1]} {there[at : at + 1]}"


if __name__ == "__main__":
    verb, first, second, *rest = sys.argv[1:]
    if verb == "compare":
        compare(Path(first), Path(second))
    else:
        place = Path(second).resolve()
        os.chdir(first)
        sys.path.insert(0, os.getcwd())
        play(place, rest)
