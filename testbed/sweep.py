"""A sweep from file to report: every point, policy and seed, in one folder that can be resumed.

OUT/sweep.json says what belongs there, OUT/points/ has a folder of runs for each point. A run is
kept if it is whole and of this very experiment; everything else is run again. So a sweep that was
interrupted, by Ctrl-C or by a power cut, goes on with the same command.
"""

import fcntl
import json
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import sweep as analysis
from basics.errors import BadInput, RunFailed
from basics.files import write_json, write_whole, writing
from basics.records import SCHEMA_VERSION
from testbed import engines
from testbed.clean import clean
from testbed.engine import Engine, Run
from testbed.pool import Call, PooledRun, execute_all
from testbed.progress import Progress
from testbed.run import describe, in_turns, stoppable
from testbed.sealing import trouble
from testbed.spec.sweep_file import Point, Sweep
from testbed.stacks import demand_stacks

LOCK = "sweep.lock"


@dataclass(frozen=True)
class Survey:
    """What of a sweep is there already, and what is still to be done."""

    kept: int
    wanting: dict[str, list[Run]]  # by the point's folder
    broken: tuple[str, ...]  # what was found instead of some of them


def run_sweep(
    sweep: Sweep,
    out: Path,
    engine_name: str,
    command: str,
    progress: Callable[[int], Progress],
    wait_s: float = 0,
) -> None:
    """Run what is wanting, then write summary and report of all points."""
    engine = engines.get(engine_name)
    for point in sweep.points:
        demand_stacks(point.experiment)
        engine.demand(point.experiment)
    run_id = secrets.token_hex(3)
    with engine.exclusive(wait_s), claimed(out), stoppable():
        begin(sweep, out, engine.NAME, command)
        left_over = clean()  # first: a helper of a killed sweep may still be writing here
        survey = take_stock(sweep, out, engine.NAME, run_id)
        with progress(sum(map(len, survey.wanting.values()))) as shown:
            for leftover in left_over:
                shown.say(f"cleaning up after a dead run: {leftover}")
            tell(survey, sweep, shown)
            tasks = prepared(sweep, survey, out, engine, command, shown, run_id)
            failures = execute_all(
                engine, tasks, shown, measurer(survey, out), keep_going=len(tasks) > 1
            )
        if failures:
            raise RunFailed(
                f"{len(failures)} of {sweep.runs} runs failed, the first ({failures[0].task.name}) "
                f"with: {failures[0].error}; the others are kept, the same command does the rest"
            )
        shown.say("analysing …")
        analysis.write(out)


def begin(sweep: Sweep, out: Path, engine: str, command: str) -> None:
    """Write down what belongs into this folder; if that stands there already, it must be this."""
    path = out / "sweep.json"
    if path.exists():
        check_same(sweep, out, engine)
        return
    write_whole(out / "experiment.yaml", sweep.to_yaml())
    write_json(path, plan(sweep, engine, command))


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
        "axes": [
            {"name": axis.name, "title": axis.title, "labels": list(axis.values)}
            for axis in sweep.axes
        ],
        "points": [{"folder": point.folder, "at": dict(point.at)} for point in sweep.points],
        "policies": [arm.label for arm in first.arms],
        "seeds": list(first.seeds),
    }


def check_same(sweep: Sweep, out: Path, engine: str) -> None:
    """Refuse to mix results of two files or two engines; nothing has been touched."""
    try:
        known = json.loads((out / "sweep.json").read_text())
        before, version = known["engine"], known["schema_version"]
        same = known["fingerprint"] == sweep.fingerprint()
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{out / 'sweep.json'}: cannot be read; choose another --out") from None
    if version != SCHEMA_VERSION:
        raise BadInput(f"{out}: holds a sweep of another version of Giveway: choose another --out")
    if before != engine:
        raise BadInput(f"{out}: holds a sweep on the engine {before}; choose another --out")
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


def tell(survey: Survey, sweep: Sweep, progress: Progress) -> None:
    runs = f"{len(sweep.points)} points, {sweep.runs} runs"
    if survey.kept:
        runs += f"; {survey.kept} are done already and were checked"
    progress.say(runs)
    for line in survey.broken[:5]:
        progress.say(f"run again: {line}")
    if len(survey.broken) > 5:
        progress.say(f"… and {len(survey.broken) - 5} more")


def prepared(
    sweep: Sweep,
    survey: Survey,
    out: Path,
    engine: Engine,
    command: str,
    progress: Progress,
    run_id: str,
) -> list[PooledRun]:
    """Settle and describe every point that has runs to do."""
    tasks = []
    said: set[str] = set()

    def say_once(line: str) -> None:
        if line not in said:
            said.add(line)
            progress.say(line)

    for point in sweep.points:
        runs = survey.wanting.get(point.folder)
        if not runs:
            continue
        at = out / "points" / point.folder
        with writing(at):
            at.mkdir(parents=True, exist_ok=True)
        setting = engine.settle(point.experiment, say_once, run_id)
        if not is_described(point, at):
            describe(point.experiment, at, engine.NAME, command, setting)
        tasks += [
            PooledRun(
                run,
                run_folder(at, run),
                setting,
                f"{point.name}: {run.choice.label}, seed {run.seed}",
            )
            for run in runs
        ]
    return tasks


def measurer(survey: Survey, out: Path) -> Callable[[PooledRun, Call], None]:
    """What follows a run: when it was the last of its point, the point is measured."""
    left = Counter({point: len(runs) for point, runs in survey.wanting.items()})
    lock = threading.Lock()

    def after(task: PooledRun, call: Call) -> None:
        at = task.folder.parent.parent
        with lock:
            left[at.name] -= 1
            last = left[at.name] == 0
        if last:
            call(analysis.measure, at)

    return after


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
