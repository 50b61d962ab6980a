"""Home: orders go out, sealed folders come in, are verified and put in their place, each once.

Dask gives a run that was lost with its worker to another one. A folder that does not arrive as it
was sealed is asked for again. What is in place stays there, whatever happens to the rest.
"""

import importlib
import os
import queue
import shutil
import tarfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from basics.errors import CannotRun, GivewayError, RunFailed
from basics.files import write_whole, writing
from testbed.engine import Engine
from testbed.pool import Failure, PooledRun
from testbed.progress import Progress
from testbed.remote.archive import Damaged
from testbed.sealing import trouble
from testbed.workers.orders import (
    DONE,
    FAILED,
    UNLIKE,
    PointOrder,
    RunOrder,
    read,
    unpacked,
    written,
)

MOST_TRIES = 3  # as often as Dask itself lets a run take its worker with it
LOOK_S = 5.0
LONELY_S = 300.0  # without any worker: then the sweep ends, and can be resumed
AHEAD = 4  # runs that wait at each worker: none is idle, and little is lost
ARRIVING = ".arriving"
DESCRIPTION = ("experiment.yaml", "plan.json")
RESUME = "finished runs are kept, the same command goes on"
UPDATE = "install the same Giveway there, or take it away, and give the same command again"
# All that a worker has on its path is the package of the launcher, which we do not know here.
WORKER = "giveway.worker"


class BadWorker(CannotRun):
    """One worker would spoil the whole: the sweep ends."""


class CannotConnect(RunFailed):
    """Nothing more will come."""


@dataclass
class _Point:
    """A point's runs, until they are all in place."""

    folder: Path
    tasks: list[PooledRun]
    futures: dict[int, Any] = field(default_factory=dict)  # by the run's place in `tasks`
    summary: Any = None  # a future: the point measured, where all of its runs were ours
    left: int = 0

    @property
    def whole(self) -> bool:
        experiment = self.tasks[0].run.experiment
        return len(self.tasks) == len(experiment.arms) * len(experiment.seeds)


def execute_all(
    client: Any, engine: Engine, tasks: Sequence[PooledRun], progress: Progress
) -> list[Failure]:
    """Have every task done by workers; those that failed are returned."""
    if not tasks:
        return []
    return _Dispatch(client, engine, progress).all(list(_points(tasks)))


def _points(tasks: Sequence[PooledRun]) -> Iterator[_Point]:
    by_folder: dict[Path, list[PooledRun]] = {}
    for task in tasks:
        by_folder.setdefault(task.folder.parent.parent, []).append(task)
    for folder, own in by_folder.items():
        yield _Point(folder, own, left=len(own))


class _Dispatch:
    """Orders that are out, and what has come of them."""

    def __init__(self, client: Any, engine: Engine, progress: Progress) -> None:
        self._client = client
        self._engine = engine
        self._progress = progress
        self._do = importlib.import_module(WORKER).do
        self._arrived: queue.Queue[tuple[_Point, int | None, Any]] = queue.Queue()
        self._failures: list[Failure] = []
        self._tries: dict[Path, int] = {}
        self._out = 0  # runs that were ordered and are not settled

    def all(self, points: list[_Point]) -> list[Failure]:
        waiting = deque(points)
        open_points: list[_Point] = []
        while waiting or open_points:
            while waiting and self._out < AHEAD * self._workers():
                open_points.append(waiting.popleft())
                self._order_point(open_points[-1])
            point, number, future = self._next()
            if number is None:
                self._keep_summary(point, future)
            else:
                self._settle(point, number, future)
            if point.left == 0 and point.summary is None:
                open_points.remove(point)
                point.futures.clear()  # workers may forget its runs
        return self._failures

    def _workers(self) -> int:
        return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    def _next(self) -> tuple[_Point, int | None, Any]:
        """What arrives next; without any worker for long, nothing will."""
        since_s = time.monotonic()
        while True:
            try:
                return self._arrived.get(timeout=LOOK_S)
            except queue.Empty:
                if self._client.status != "running":
                    raise RunFailed(f"the scheduler is gone; {RESUME}") from None
                if self._client.scheduler_info(n_workers=-1)["workers"]:
                    since_s = time.monotonic()
                elif time.monotonic() - since_s > LONELY_S:
                    raise RunFailed(f"no worker for {LONELY_S:.0f} s; {RESUME}") from None

    def _order_point(self, point: _Point) -> None:
        for number in range(len(point.tasks)):
            self._order(point, number)
        if point.whole:
            files = {name: (point.folder / name).read_text() for name in DESCRIPTION}
            runs = [str(task.folder.relative_to(point.folder)) for task in point.tasks]
            order = written(PointOrder(files, runs))
            answers = [point.futures[number] for number in range(len(runs))]
            point.summary = self._submit(point, None, order, *answers)

    def _order(self, point: _Point, number: int) -> None:
        order = written(RunOrder.of(self._engine.__name__, point.tasks[number].run))
        self._out += 1
        point.futures[number] = self._submit(point, number, order)

    def _submit(self, point: _Point, number: int | None, order: bytes, *answers: Any) -> Any:
        future = self._client.submit(
            self._do, order, *answers, pure=False, priority=1 if number is None else 0
        )
        future.add_done_callback(lambda done: self._arrived.put((point, number, done)))
        return future

    def _settle(self, point: _Point, number: int, future: Any) -> None:
        """Put a run in its place, or order it again, or count it as failed."""
        task = point.tasks[number]
        self._out -= 1
        try:
            wrong = self._placed(task, self._answer(future))
            if wrong is not None:
                tries = self._tries[task.folder] = self._tries.get(task.folder, 1) + 1
                if tries <= MOST_TRIES:
                    self._progress.say(f"run again: {task.name}: {wrong}")
                    self._order(point, number)
                    return
                raise RunFailed(f"arrived damaged {MOST_TRIES} times ({wrong})")
            with self._progress.run(task.name, task.run.experiment.duration_ns):
                pass
        except (BadWorker, CannotConnect):
            raise
        except GivewayError as error:
            self._failures.append(Failure(task, error))
        point.left -= 1

    def _answer(self, future: Any) -> bytes:
        """The files of a run. Raises what went wrong with it there."""
        kind, content = _read(future)
        if kind == UNLIKE:
            raise BadWorker(f"a worker is not like this machine: {content}; {UPDATE}")
        if kind != DONE:
            raise content
        return bytes(content)

    def _placed(self, task: PooledRun, files: bytes) -> str | None:
        """What is wrong with the files, if anything; if not, the run is where it belongs."""
        beside = task.folder.with_name(task.folder.name + ARRIVING)
        try:
            with writing(task.folder):
                shutil.rmtree(beside, ignore_errors=True)
                unpacked(files, beside)
            wrong = trouble(beside, self._engine.NAME, task.run.choice.label, task.run.seed)
        except (tarfile.TarError, Damaged) as error:
            wrong = str(error)
        if wrong is not None:
            shutil.rmtree(beside, ignore_errors=True)
            return wrong
        with writing(task.folder):
            os.rename(beside, task.folder)  # refused if it is there: no run counts twice
        return None

    def _keep_summary(self, point: _Point, future: Any) -> None:
        """A summary that came is checked against the records when the sweep is analysed."""
        point.summary = None
        kind, content = _read(future)
        if kind == DONE:
            write_whole(point.folder / "summary.json", content.decode())


def _read(future: Any) -> tuple[str, Any]:
    from distributed import CancelledError, KilledWorker

    try:
        return read(future.result())
    except KilledWorker:
        return FAILED, RunFailed(f"its worker died {MOST_TRIES} times, perhaps of this run")
    except CancelledError:
        raise CannotConnect(f"the scheduler is gone; {RESUME}") from None
    except ImportError as error:
        raise BadWorker(f"a worker is not like this machine: {error}; {UPDATE}") from None
