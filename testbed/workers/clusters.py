"""Where workers are: behind a scheduler that is there, on this machine, or in Slurm's queue."""

import importlib
import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from basics import units
from basics.errors import BadInput, CannotRun
from basics.home import how
from testbed.pool import worker_environment

CONNECT_S = 20.0
WORKERS_S = 60.0  # until the first worker is there; jobs in a queue say theirs by `wait`
QUEUED = "1 h"
# Dask looks at its own processes a hundred times a second, and simulations pay for it.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1 s",
    "distributed.admin.system-monitor.interval": "10 s",
    "distributed.admin.system-monitor.disk": False,
    # Dask has workers give memory back as soon as 64 kB of it are free. Simulations ask for it
    # again with the next array: the kernel's part of the grid was 19 s, and is 5 s without.
    "distributed.nanny.pre-spawn-environ": {},
}
FORMS = "ADDRESS of a scheduler, local:N, or slurm:FILE"


@dataclass(frozen=True)
class WorkersPlace:
    """What was asked for by --dask, read and found sensible."""

    address: str | None = None
    workers: int = 0  # on this machine
    slurm: dict[str, Any] | None = None
    wait_s: float = WORKERS_S

    @staticmethod
    def read(text: str) -> "WorkersPlace":
        kind, _, rest = text.partition(":")
        if kind == "local":
            if not re.fullmatch(r"[1-9]\d{0,3}", rest):
                raise BadInput(f"--dask {text}: write how many workers, like local:4")
            return WorkersPlace(workers=int(rest))
        if kind == "slurm":
            return _of_slurm(text, Path(rest))
        if not re.fullmatch(r"((tcp|tls)://)?[^/\s:]+:\d{1,5}", text):
            raise BadInput(f"--dask {text}: write {FORMS}; an address is like tcp://node1:8786")
        return WorkersPlace(address=text)


def _of_slurm(text: str, file: Path) -> WorkersPlace:
    """A YAML file: `jobs`, how long to `wait`, and the options of dask_jobqueue.SLURMCluster."""
    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise BadInput(f"--dask {text}: cannot be read: {first}") from None
    if not isinstance(options, dict) or not isinstance(options.get("jobs"), int):
        raise BadInput(f"--dask {text}: needs `jobs: N`, how many jobs to queue")
    try:
        wait_s = units.time_ns(str(options.pop("wait", QUEUED))) / 1e9
    except ValueError as error:
        raise BadInput(f"--dask {text}: wait: {error}") from None
    return WorkersPlace(slurm=options, wait_s=wait_s)


def demand_dask(place: WorkersPlace) -> None:
    """Refuse, in one line that says what to install, where Dask is missing."""
    wanted = ["distributed", *(["dask_jobqueue"] if place.slurm is not None else [])]
    for module in wanted:
        try:
            importlib.import_module(module)
        except ImportError:
            raise CannotRun(f"--dask needs Dask ({module}): `{how('make dask')}`") from None


@contextmanager
def opened(place: WorkersPlace, run_id: str) -> Iterator[Any]:
    """A client of Dask's with at least one worker; what was started here ends with it."""
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said by us
    with ExitStack() as until_end:
        target: Any = place.address
        if place.workers:
            scratch = until_end.enter_context(tempfile.TemporaryDirectory(prefix="giveway-dask-"))
            until_end.enter_context(dask.config.set(QUIET))
            with worker_environment(run_id):
                target = LocalCluster(
                    n_workers=place.workers, threads_per_worker=1, processes=True,
                    dashboard_address=None, local_directory=scratch, silence_logs=logging.CRITICAL,
                    memory_limit=0,
                )  # fmt: skip
            until_end.enter_context(target)
        elif place.slurm is not None:
            target = until_end.enter_context(_slurm_cluster(dict(place.slurm)))
        try:
            client = Client(target, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError):
            raise CannotRun(f"--dask {place.address}: no scheduler answers there") from None
        until_end.enter_context(client)
        try:
            client.wait_for_workers(1, timeout=place.wait_s)
        except TimeoutError:
            raise CannotRun(f"--dask: no worker came within {place.wait_s:.0f} s") from None
        yield client


def _slurm_cluster(options: dict[str, Any]) -> Any:
    from dask_jobqueue import SLURMCluster

    jobs = options.pop("jobs")
    try:
        cluster = SLURMCluster(**{"cores": 1, "processes": 1, **options})
        cluster.scale(jobs=jobs)
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise CannotRun(f"--dask slurm: no cluster with these options: {first}") from None
    return cluster
