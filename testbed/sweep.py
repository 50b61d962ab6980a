"""A sweep from file to report: every point, policy and seed, in one folder that can be resumed.

A sweep that was interrupted, by Ctrl-C or by a power cut, goes on with the same command: what is
whole in its folder (sweep_folder.py) is kept.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import sweep as analysis
from basics.errors import RunFailed
from basics.files import writing
from testbed import engines
from testbed.clean import clean
from testbed.engine import Engine
from testbed.pool import Call, Failure, PooledRun, execute_all
from testbed.progress import Progress
from testbed.run import describe, stoppable
from testbed.shards import Shard
from testbed.spec.sweep_file import Sweep
from testbed.stacks import demand_stacks
from testbed.sweep_folder import Survey, begin, claimed, is_described, run_folder, take_stock

if TYPE_CHECKING:
    from testbed.workers.clusters import WorkersPlace


def run_sweep(
    sweep: Sweep,
    out: Path,
    engine_name: str,
    command: str,
    progress: Callable[[int], Progress],
    wait_s: float = 0,
    shard: Shard | None = None,
    workers: "WorkersPlace | None" = None,
) -> None:
    """Run what is wanting, then write summary and report of all points.

    Of a shard, only its points are run; its report comes when the shards are joined.
    """
    engine = engines.get(engine_name)
    whole, sweep = sweep, sweep if shard is None else shard.part_of(sweep)
    for point in sweep.points:
        demand_stacks(point.experiment)
        engine.demand(point.experiment)
    run_id = secrets.token_hex(3)
    with engine.exclusive(wait_s), claimed(out), stoppable():
        begin(whole, out, engine.NAME, command, None if shard is None else str(shard))
        left_over = clean()  # first: a helper of a killed sweep may still be writing here
        survey = take_stock(sweep, out, engine.NAME, run_id)
        with progress(sum(map(len, survey.wanting.values()))) as shown:
            for leftover in left_over:
                shown.say(f"cleaning up after a dead run: {leftover}")
            tell(survey, sweep, shown)
            tasks = prepared(sweep, survey, out, engine, command, shown, run_id)
            if workers is None:
                after = measurer(survey, out)
                failures = execute_all(engine, tasks, shown, after, keep_going=len(tasks) > 1)
            else:
                failures = by_workers(workers, engine, tasks, shown, run_id)
        if failures:
            raise RunFailed(
                f"{len(failures)} of {sweep.runs} runs failed, the first ({failures[0].task.name}) "
                f"with: {failures[0].error}; the others are kept, the same command does the rest"
            )
        if shard is None:
            shown.say("analysing …")
            analysis.write(out)


def by_workers(
    place: "WorkersPlace", engine: Engine, tasks: list[PooledRun], progress: Progress, run_id: str
) -> list[Failure]:
    """Have the runs done by Dask's workers, who measure whole points too."""
    from testbed.workers import clusters, home

    if not tasks:
        return []
    with clusters.opened(place, run_id) as client:
        return home.execute_all(client, engine, tasks, progress)


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
