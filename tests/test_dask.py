"""Sweeps on Dask's workers: a real scheduler, a worker that is killed, and what may go wrong."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from basics.errors import BadInput, CannotRun, RunFailed
from testbed import engines, identity
from testbed.cli import commands
from testbed.fluid import engine as fluid
from testbed.progress import OneBar
from testbed.spec import sweep_file
from testbed.sweep import run_sweep
from testbed.workers import clusters, orders
from testbed.workers.clusters import WorkersPlace
from tests import fake_engine
from tests.test_shards import manifests
from tests.test_sweep import RUNS, SWEEP, flip

NO_NANNY = ("--no-nanny", "--nthreads", "1", "--no-dashboard")


def swept(place: Path, out: Path, workers: WorkersPlace | None, engine: str = "fluid") -> str:
    """Run the sweep, and return what it said."""
    with (place / "said").open("w+") as said:
        console = Console(file=said, width=200)
        grid = sweep_file.load(place / "small.yaml")
        run_sweep(grid, out, engine, "test", lambda n: OneBar(console, n), workers=workers)
        said.seek(0)
        return said.read()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dask")
    (folder / "small.yaml").write_text(SWEEP)
    return folder


class Workshop:
    """A scheduler and workers, each a process as their owner would start it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._all: list[subprocess.Popen[bytes]] = []
        self.start("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
        self.workers = [self.start("worker", *NO_NANNY) for _ in range(2)]

    def start(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "dask", kind, "--scheduler-file", self._file, *words]
        log = (self._folder / f"{kind}.log").open("ab")
        with log:
            self._all.append(
                subprocess.Popen(program, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT)
            )
        return self._all[-1]

    @property
    def address(self) -> str:
        from distributed import Client

        with Client(scheduler_file=str(self._file), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            return str(client.scheduler.address)

    def close(self) -> None:
        for one in self._all:
            one.kill()
        for one in self._all:
            one.wait()


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(tmp_path)
    yield shop
    shop.close()


@pytest.mark.dask
def test_a_worker_is_killed_and_every_run_is_there_once(
    place: Path, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fluid, "parallel", lambda experiment: 1)
    swept(place, tmp_path / "here", None)
    known = manifests(tmp_path / "here")
    out = tmp_path / "out"
    where = WorkersPlace.read(workshop.address)

    def kill_one() -> None:
        while not manifests(out):
            time.sleep(0.02)
        workshop.workers[0].send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    swept(place, out, where)
    killer.join()
    assert workshop.workers[0].wait() == -signal.SIGKILL
    assert manifests(out) == known
    assert len(known) == RUNS
    assert not list(out.rglob("*.arriving"))
    tables = [pd.read_parquet(folder / "summary.parquet") for folder in (out, tmp_path / "here")]
    assert tables[0].equals(tables[1])

    shutil.rmtree(next(out.glob("points/0-*/fifo/seed-0")))
    flip(next(out.glob("points/1-*/fifo/seed-1/links.parquet")))
    said = swept(place, out, where)  # by the one that is left
    assert f"{RUNS - 2} are done already" in said
    assert manifests(out) == known


class Finished:
    """A future of somebody who does everything at once."""

    def __init__(self, result: bytes) -> None:
        self._result = result

    def result(self) -> bytes:
        return self._result

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)


class OneWorker:
    """Dask's client as far as home knows it; `spoil` does something to an answer on its way."""

    status = "running"

    def __init__(self, spoil: Callable[[bytes], bytes] = lambda answer: answer) -> None:
        self._spoil = spoil
        self.orders = 0

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {"one": {}}}

    def submit(self, do: Any, order: bytes, *answers: Finished, **_: object) -> Finished:
        self.orders += 1
        return Finished(self._spoil(do(order, *(one.result() for one in answers))))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., OneWorker]:
    monkeypatch.setitem(engines.MODULES, "fake", "tests.fake_engine")

    def use(spoil: Callable[[bytes], bytes] = lambda answer: answer) -> OneWorker:
        from contextlib import nullcontext

        client = OneWorker(spoil)
        monkeypatch.setattr(clusters, "opened", lambda place, run_id: nullcontext(client))
        return client

    return use


def damaged(answer: bytes) -> bytes:
    kind, files = orders.read(answer)
    # Half of it: an archive ends with up to 10 kB of nothing, which nobody would miss.
    spoiled = files[: len(files) // 2] if kind == "done" else files
    return pickle.dumps((kind, spoiled))


def test_what_arrives_damaged_is_run_again(
    place: Path, tmp_path: Path, worker: Callable[..., OneWorker]
) -> None:
    number = 0

    def first_only(answer: bytes) -> bytes:
        nonlocal number
        number += 1
        return damaged(answer) if number == 1 else answer

    client = worker(first_only)
    said = swept(place, tmp_path / "out", WorkersPlace(workers=1), "fake")
    assert said.count("run again: ") == 1
    assert client.orders == RUNS + 4 + 1  # the runs, a summary a point, and one again
    assert len(manifests(tmp_path / "out")) == RUNS


def test_what_always_arrives_damaged_fails(
    place: Path, tmp_path: Path, worker: Callable[..., OneWorker]
) -> None:
    worker(damaged)
    with pytest.raises(RunFailed, match=f"{RUNS} of {RUNS} runs failed.*damaged 3 times"):
        swept(place, tmp_path / "out", WorkersPlace(workers=1), "fake")
    assert manifests(tmp_path / "out") == {}


def test_a_worker_with_other_code_ends_the_sweep(
    place: Path, tmp_path: Path, worker: Callable[..., OneWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = dict(identity.here())
    worker(lambda answer: pickle.dumps((orders.UNLIKE, identity.difference(mine, other))))
    other = mine | {"code": "0"}
    with pytest.raises(CannotRun, match="not like this machine: it has code 0, not ") as why:
        swept(place, tmp_path / "out", WorkersPlace(workers=1), "fake")
    assert "\n" not in str(why.value)
    assert {"code", "giveway", "python", "numpy", "pandas", "pyarrow", "numba"} <= mine.keys()
    for name in mine:
        order = pickle.dumps((mine | {name: "0"}, b"never read"))
        kind, why_not = orders.read(orders.answered(order, ()))
        assert kind == orders.UNLIKE
        assert name in why_not


@pytest.mark.dask
def test_workers_of_this_machine_keep_the_memory_that_they_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dask would have them give it back at once, and the grid would take a quarter longer."""
    import dask
    import distributed  # noqa: F401 (brings its settings)

    name = "MALLOC_TRIM_THRESHOLD_"  # if Dask has another one, what we undo has too
    assert name in dask.config.get("distributed.nanny.pre-spawn-environ")
    monkeypatch.delenv(name, raising=False)
    with clusters.opened(WorkersPlace(workers=1), "test") as client:
        [found] = client.run(lambda: dict(os.environ)).values()
        [profiled] = client.run(dask.config.get, "distributed.worker.profile.enabled").values()
    assert name not in found
    assert not profiled


def test_a_failing_policy_does_not_stop_the_others(
    place: Path, tmp_path: Path, worker: Callable[..., OneWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker()
    monkeypatch.setenv("GIVEWAY_FAKE_FAIL", "strict-priority")
    with pytest.raises(RunFailed, match=f"8 of {RUNS} runs failed.*as told"):
        swept(place, tmp_path / "out", WorkersPlace(workers=1), "fake")
    monkeypatch.delenv("GIVEWAY_FAKE_FAIL")
    assert "8 are done already" in swept(place, tmp_path / "out", WorkersPlace(workers=1), "fake")


def test_a_replayed_file_must_be_the_same_there(tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text("start_ns,src,dst,size_byte\n0,h1,h2,1000\n")
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        SWEEP.replace(
            "{name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host}",
            f"{{name: web, schedule: {file}}}",
        )
    )
    from testbed.run import in_turns

    [run, *_] = in_turns(sweep_file.load(grid).first, "test00")
    order = orders.written(orders.RunOrder.of(fake_engine.__name__, run))
    assert orders.read(orders.answered(order, ()))[0] == orders.DONE
    file.write_text("start_ns,src,dst,size_byte\n0,h1,h2,2000\n")
    kind, why = orders.read(orders.answered(order, ()))
    assert (kind, type(why)) == (orders.FAILED, CannotRun)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("local:0",), "write how many workers, like local:4"),
        (("nowhere",), "write ADDRESS of a scheduler, local:N, or slurm:FILE"),
        (("slurm:absent.yaml",), "cannot be read: "),
        (("local:2", "--engine", "realtime"), "real time need a machine each"),
    ],
)
def test_mistakes_are_one_line(place: Path, words: tuple[str, ...], said: str) -> None:
    engine = () if "--engine" in words else ("--engine", "fluid")
    with pytest.raises(BadInput) as why:
        commands.app(["sweep", str(place / "small.yaml"), "--dask", *words, *engine])
    assert said in str(why.value)
    assert "\n" not in str(why.value)


def test_without_dask_a_line_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CannotRun, match=r"--dask needs Dask \(distributed\): `make dask`"):
        commands.app(["sweep", str(place / "small.yaml"), "--engine", "fluid", "--dask", "local:2"])


@pytest.mark.dask
def test_nobody_at_an_address_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CONNECT_S", 0.5)
    with (
        pytest.raises(CannotRun, match=r"127\.0\.0\.1:9: no scheduler answers there"),
        clusters.opened(WorkersPlace.read("tcp://127.0.0.1:9"), "test00"),
    ):
        pass
