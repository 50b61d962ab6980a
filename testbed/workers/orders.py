"""What home sends to a worker, and what comes back: all as bytes, so that Dask need not know of it.

An order is read only by a worker with the same versions and the same code. A run is played in a
folder of the worker's own, sealed there, and its files are the answer; home verifies them.
"""

import importlib
import io
import pickle
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from basics.errors import CannotRun, GivewayError, RunFailed
from basics.files import digest_of, write_whole
from testbed import identity
from testbed.engine import Engine, Run
from testbed.remote.archive import put
from testbed.run_folder import RunFolder

DONE, FAILED, UNLIKE = "done", "failed", "unlike"
Answer = tuple[str, Any]  # one of the three, and files, an error, or what differs


@dataclass(frozen=True)
class RunOrder:
    """A run, the engine's module, and the digest of every file that it replays."""

    engine: str
    run: Run
    schedules: Mapping[Path, str]

    @staticmethod
    def of(engine: str, run: Run) -> "RunOrder":
        files = [mix.schedule for mix in run.experiment.flows if mix.schedule is not None]
        return RunOrder(engine, run, {file.absolute(): digest_of(file) for file in files})

    def performed(self) -> bytes:
        for file, digest in self.schedules.items():
            if not file.is_file() or digest_of(file) != digest:
                raise CannotRun(f"a worker has no {file}, or another one: put it there as it is")
        engine = cast(Engine, importlib.import_module(self.engine))
        engine.demand(self.run.experiment)
        setting = engine.settle(self.run.experiment, lambda line: None, self.run.run_id)
        with tempfile.TemporaryDirectory(prefix="giveway-worker-") as place:
            folder = RunFolder(Path(place) / "run")
            engine.execute(self.run, folder, setting, lambda done_ns: None)
            return packed(folder.path)


@dataclass(frozen=True)
class PointOrder:
    """A point to measure: the files that describe it, and where its runs belong."""

    files: Mapping[str, str]
    runs: Sequence[str]

    def measured(self, answers: Sequence[bytes]) -> bytes:
        from analysis.sweep import measure

        told = [read(answer) for answer in answers]
        if any(kind != DONE for kind, _ in told):
            raise RunFailed("a run of the point failed")
        with tempfile.TemporaryDirectory(prefix="giveway-worker-") as place:
            for name, text in self.files.items():
                write_whole(Path(place) / name, text)
            for name, (_, files) in zip(self.runs, told, strict=True):
                unpacked(files, Path(place) / name)
            measure(Path(place))
            return (Path(place) / "summary.json").read_bytes()


def written(order: RunOrder | PointOrder) -> bytes:
    return pickle.dumps((dict(identity.here()), pickle.dumps(order)))


def answered(order: bytes, answers: Sequence[bytes]) -> bytes:
    """On a worker: do what an order says. Whatever goes wrong is an answer too."""
    asked_by, content = pickle.loads(order)
    unlike = identity.difference(asked_by, identity.here())
    if unlike:
        return pickle.dumps((UNLIKE, unlike))
    answer: Answer
    try:
        wanted: RunOrder | PointOrder = pickle.loads(content)
        done = wanted.performed() if isinstance(wanted, RunOrder) else wanted.measured(answers)
        answer = DONE, done
    except GivewayError as error:
        answer = FAILED, error
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        answer = FAILED, RunFailed(f"{type(error).__name__}: {first}")
    return pickle.dumps(answer)


def read(answer: bytes) -> Answer:
    return cast(Answer, pickle.loads(answer))


def packed(folder: Path) -> bytes:
    """All files of a folder; tables are compressed already."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpacked(files: bytes, folder: Path) -> None:
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(files), mode="r:") as tar:
        for member in tar:
            put(tar, member, folder)
