"""Many runs: one after another, or as many at once as the engine can without changing a result.

Every run has a thread. An engine that leaves its work to other programs (a guest, a network) needs
no more than that. An engine that computes in Python says IN_PROCESSES: then every thread has a
helper, a warm process of its own, which pays for its imports once. A helper whose controller is
gone, even by kill -9, reads the end of its pipe and ends.
"""

import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from basics.errors import GivewayError, RunFailed
from testbed.engine import Engine, Run, Setting
from testbed.processes import CONTROLLER_VARIABLE, NAMESPACE_VARIABLE, RUN_VARIABLE, environment
from testbed.progress import Progress
from testbed.run_folder import RunFolder

# Helpers are as many as there are cores, so none of them needs threads of its own.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MARKS = (RUN_VARIABLE, CONTROLLER_VARIABLE, NAMESPACE_VARIABLE)
GOODBYE_S = 5.0

Call = Callable[..., Any]  # call(function, *arguments): the function's result


@dataclass(frozen=True)
class PooledRun:
    """A run, where its records go, and how it is played."""

    run: Run
    folder: Path
    setting: Setting
    name: str


@dataclass(frozen=True)
class Failure:
    task: PooledRun
    error: GivewayError


def execute_all(
    engine: Engine,
    tasks: Sequence[PooledRun],
    progress: Progress,
    after: Callable[[PooledRun, Call], None] = lambda task, call: None,
    *,
    keep_going: bool = False,
) -> list[Failure]:
    """Do every task. `after` follows each one in its thread, and may call functions elsewhere.

    A run that fails ends them all, or with `keep_going` is among those that are returned.
    """
    if not tasks:
        return []
    experiments = {id(task.run.experiment): task.run.experiment for task in tasks}
    at_once = min(len(tasks), *(engine.parallel(experiment) for experiment in experiments.values()))
    crew = _Crew(tasks[0].run.run_id)
    failures: list[Failure] = []

    def do(task: PooledRun, call: Call | None) -> None:
        try:
            with progress.run(task.name, task.run.experiment.duration_ns) as on_time:
                if call is not None and engine.IN_PROCESSES:
                    order = (engine.__name__, task.run, task.folder, task.setting)
                    call(_execute, *order, on_time=on_time)
                else:
                    folder = RunFolder(task.folder)
                    engine.execute(task.run, folder, task.setting, on_time)
            after(task, call or _here)
        except GivewayError as error:
            if not keep_going or crew.stopped:
                raise
            failures.append(Failure(task, error))

    if at_once == 1:
        for task in tasks:
            do(task, None)
        return failures
    with crew, ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(do, task, crew.call) for task in tasks]
        try:
            _first_failure(futures)
        except BaseException:
            engine.cancel()
            crew.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def _first_failure(futures: Sequence[Future[None]]) -> None:
    """Wait for all of them, or for the first that fails, and raise what it raised."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()


def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class _Crew:
    """The helpers of a pool: one a thread, started when the thread first needs it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._mine = threading.local()
        self._helpers: list[Helper] = []
        self._lock = threading.Lock()
        self.stopped = False

    def __enter__(self) -> "_Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.end()

    def call(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        helper: Helper | None = getattr(self._mine, "helper", None)
        if helper is None or not helper.alive:
            with self._lock:
                if self.stopped:
                    raise RunFailed("stopped")
                helper = self._mine.helper = Helper(self._run_id)
                self._helpers.append(helper)
        return helper.call(function, *arguments, **more)

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            for helper in self._helpers:
                helper.kill()


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Helper:
    """A process that does one thing after another for us, in an interpreter that stays warm."""

    def __init__(self, run_id: str) -> None:
        context = multiprocessing.get_context("spawn")  # no lock or thread of ours is copied
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with worker_environment(run_id), _held_back(ENDING):
            self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        on_time: Callable[[int], None] | None = None,
    ) -> Any:
        """The function's result; what it raises is raised here.

        A function that is called with `on_time` gets one as its last argument.
        """
        try:
            self._line.send((function, arguments, on_time is not None))
            while True:
                kind, content = self._line.recv()
                if kind == "time" and on_time is not None:
                    on_time(content)
                elif kind == "done":
                    return content
                else:
                    raise content
        except (EOFError, OSError):
            self._process.join(GOODBYE_S)
            raise RunFailed(
                f"a helper process ended unexpectedly (exit code {self._process.exitcode}); "
                "if that was -9, the machine may be short of memory"
            ) from None

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self._line.close()
        self._process.join(GOODBYE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(GOODBYE_S)


@contextmanager
def worker_environment(run_id: str) -> Iterator[None]:
    """What a helper is born with: the mark of its run, and one thread."""
    marks = {key: value for key, value in environment(run_id).items() if key in MARKS} | ONE_THREAD
    before = {key: os.environ.get(key) for key in marks}
    os.environ.update(marks)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


@contextmanager
def _held_back(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Signals wait meanwhile; what is started here has them waiting too, until it is ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(line: Connection) -> None:
    """The life of a helper."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C reaches all; the controller decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    while True:
        try:
            function, arguments, timed = line.recv()
        except (EOFError, OSError):
            return
        more = (lambda done_ns: line.send(("time", done_ns)),) if timed else ()
        try:
            answer = ("done", function(*arguments, *more))
        except GivewayError as error:
            answer = ("failed", error)
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            unforeseen = RuntimeError(f"{type(error).__name__}: {first}")
            unforeseen.add_note(traceback.format_exc())
            answer = ("failed", unforeseen)
        try:
            line.send(answer)
        except OSError:
            return


def _execute(
    engine: str, run: Run, folder: Path, setting: Setting, on_time: Callable[[int], None]
) -> None:
    """A run, in a helper."""
    module = cast(Engine, importlib.import_module(engine))
    module.execute(run, RunFolder(folder), setting, on_time)
