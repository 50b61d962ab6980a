"""The folder of a sweep: what belongs there, what of it is there, and who writes to it.

OUT/sweep.json says what belongs there, OUT/points/ has a folder of runs for each point. A run is
kept if it is whole and of this very experiment; everything else is run again.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from basics.errors import BadInput
from basics.files import write_json, write_whole, writing
from basics.record_version import SCHEMA_VERSION
from testbed import identity
from testbed.engine import Run
from testbed.run import in_turns
from testbed.sealing import trouble
from testbed.spec.sweep_file import Point, Sweep

LOCK = "sweep.lock"


@dataclass(frozen=True)
class Survey:
    """What of a sweep is there already, and what is still to be done."""

    kept: int
    wanting: dict[str, list[Run]]  # by the point's folder
    broken: tuple[str, ...]  # what was found instead of some of them


def begin(sweep: Sweep, out: Path, engine: str, command: str, shard: str | None = None) -> None:
    """Write down what belongs into this folder; if that stands there already, it must be this."""
    path = out / "sweep.json"
    if path.exists():
        check_same(sweep, out, engine, shard)
        return
    write_whole(out / "experiment.yaml", sweep.to_yaml())
    part = {} if shard is None else {"shard": shard}
    write_json(path, plan(sweep, engine, command) | part)


def plan(sweep: Sweep, engine: str, command: str) -> dict[str, Any]:
    """The sweep for machines (sweep.json): all that analysis needs to know."""
    first = sweep.first
    return {
        "schema_version": SCHEMA_VERSION,
        "name": first.name,
        "question": first.question,
        "engine": engine,
        "command": command,
        "fingerprint": sweep.fingerprint(),
        "made_by": dict(identity.here()),
        "axes": [
            {"name": axis.name, "title": axis.title, "labels": list(axis.values)}
            for axis in sweep.axes
        ],
        "points": [{"folder": point.folder, "at": dict(point.at)} for point in sweep.points],
        "policies": [arm.label for arm in first.arms],
        "seeds": list(first.seeds),
    }


def read_plan(out: Path) -> dict[str, Any]:
    """What a folder says that it holds; refuses one that is no sweep, or too old."""
    path = out / "sweep.json"
    if not path.is_file():
        raise BadInput(f"{out}: not the folder of a sweep (it has no sweep.json)")
    try:
        known = json.loads(path.read_text())
        version, _ = known["schema_version"], (known["engine"], known["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{path}: cannot be read; choose another folder") from None
    if version != SCHEMA_VERSION:
        raise BadInput(f"{out}: holds a sweep of another version of Giveway: choose another folder")
    return dict(known)


def check_same(sweep: Sweep, out: Path, engine: str, shard: str | None = None) -> None:
    """Refuse to mix results of two files, engines or shards; nothing has been touched."""
    known = read_plan(out)
    before, part = known["engine"], known.get("shard")
    same = known["fingerprint"] == sweep.fingerprint()
    if before != engine:
        raise BadInput(f"{out}: holds a sweep on the engine {before}; choose another --out")
    if part != shard and same:
        held = "a whole sweep" if part is None else f"shard {part} of a sweep"
        raise BadInput(f"{out}: holds {held}; choose another --out")
    if not same:
        raise BadInput(
            f"{out}: the experiment has changed since this sweep was begun"
            f"{_difference(sweep, out)}; its results are untouched: choose another --out"
        )


def _difference(sweep: Sweep, out: Path) -> str:
    """The first line of the resolved file that is another one now."""
    try:
        before = (out / "experiment.yaml").read_text().splitlines()
    except OSError:
        return ""
    now = sweep.to_yaml().splitlines()
    for old, new in zip(before, now, strict=False):
        if old != new:
            return f" (it was `{old.strip()}`, it is `{new.strip()}`)"
    return " (it has become shorter)" if len(before) > len(now) else ""


def take_stock(sweep: Sweep, out: Path, engine: str, run_id: str) -> Survey:
    """Look at every run that should be there; whatever is not whole is removed."""
    wanting: dict[str, list[Run]] = {}
    broken = []
    kept = 0
    for point in sweep.points:
        at = out / "points" / point.folder
        described = is_described(point, at)
        for run in in_turns(point.experiment, run_id):
            path = run_folder(at, run)
            wrong = "never run"
            if path.exists():
                wrong = trouble(path, engine, run.choice.label, run.seed) or ""
                if not wrong and not described:
                    wrong = "it is of another experiment"
            if not wrong:
                kept += 1
                continue
            if path.exists():
                broken.append(f"{path.relative_to(out)}: {wrong}")
                remove(path, out, wrong)
            wanting.setdefault(point.folder, []).append(run)
    return Survey(kept, wanting, tuple(broken))


def remove(path: Path, out: Path, wrong: str) -> None:
    """Remove a run, unless a link below the sweep's folder says that it is kept elsewhere."""
    for folder in (path, *path.parents):
        if folder == out:
            break
        if folder.is_symlink():
            raise BadInput(
                f"{path}: {wrong}; it would be removed and run again, but {folder} is a link, and "
                "what it leads to may not be the sweep's: replace the link, or choose another --out"
            )
    with writing(path):
        shutil.rmtree(path)


def is_described(point: Point, at: Path) -> bool:
    """Whether the folder says that it is of exactly this experiment."""
    try:
        described = (at / "experiment.yaml").read_text() == point.experiment.to_yaml()
    except OSError:
        return False
    return described and (at / "plan.json").is_file()


def run_folder(at: Path, run: Run) -> Path:
    return at / run.choice.label / f"seed-{run.seed}"


@contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Held while a sweep writes into a folder: two at once would take each other's runs apart."""
    if out.exists() and not (out / "sweep.json").exists():
        others = [path for path in out.iterdir() if path.name != LOCK] if out.is_dir() else [out]
        if others:
            raise BadInput(f"{out} already exists and is not a sweep: choose another --out")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("a")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                f"{out}: another sweep is writing there: wait for it, or choose another --out"
            ) from None
        yield
