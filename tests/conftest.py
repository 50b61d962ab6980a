"""What tests share: experiments small enough to run for real, and a look at what is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import hypothesis
import pytest

from basics.errors import CannotRun
from testbed import stacks
from testbed.containers import docker_engine, image
from testbed.processes import start_time
from testbed.virtual.build import find

# A shell without job control starts its background jobs with Ctrl-C ignored, and what they start
# inherits that: programs that the tests interrupt would not notice.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).parent.parent

# How long an example takes is the machine's affair, and the first one may compile something.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")
SSHD = "/usr/sbin/sshd"
# Not by its name alone: a version manager has a program of this name for versions that it lacks.
PYTHON_313 = next(
    (
        path
        for path in (
            *(Path(folder) / "python3.13" for folder in os.get_exec_path()),
            *Path.home().glob(".pyenv/versions/3.13*/bin/python3.13"),
        )
        if path.is_file() and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    ),
    None,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = {}
    if os.environ.get("GIVEWAY_SLOW") != "yes":
        missing["slow"] = "takes minutes: GIVEWAY_SLOW=yes runs it, as CI does"
    if os.geteuid() != 0:
        missing["root"] = "needs root"
    if find() is None:
        missing["virtual"] = "the virtual engine's kernel is not built: make virtual"
    if find_spec("torch") is None:
        missing["torch"] = "torch is not installed: make torch"
    if find_spec("distributed") is None:
        missing["dask"] = "Dask is not installed: make dask"
    if not all(map(which, ("slurmctld", "slurmd", "munged"))):
        missing["slurm"] = "Slurm is not installed: GIVEWAY_SLURM=yes scripts/setup.sh"
    if which("tshark") is None:
        missing["tshark"] = "tshark is not installed: GIVEWAY_TSHARK=yes scripts/setup.sh"
    if PYTHON_313 is None:
        missing["python313"] = "there is no Python 3.13 here"
    if which(SSHD) is None:
        missing["sshd"] = "no SSH server is installed: GIVEWAY_SSHD=yes scripts/setup.sh"
    try:
        stacks.demand_stack("horovod", stacks.here())
    except CannotRun as why:
        missing["horovod"] = str(why)
    if any(item.get_closest_marker("docker") for item in items):
        try:
            docker_engine.demand_image()
        except CannotRun as why:
            missing["docker"] = str(why)
        try:
            stacks.demand_stack("horovod", stacks.inside(image.HOROVOD))
        except CannotRun as why:
            missing["docker_horovod"] = str(why)
    for item in items:
        for marker, reason in missing.items():
            # Not item.keywords: those hold the names of folders too.
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def giveway(
    *arguments: str | Path, limit_s: float = 100, wait: bool = True, cwd: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it; a realtime run waits for its turn.

    What is in `cwd` goes before what is in this checkout: somebody's own policies.
    """
    waiting = ["--wait"] if wait and arguments[0] == "run" else []
    return subprocess.run(
        [sys.executable, "-m", "testbed", *map(str, arguments), *waiting],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


SESSION = f"GIVEWAY_TESTS={os.getpid()}"
os.environ.update([SESSION.split("=")])


def ours() -> set[str]:
    """What runs of this test session have on the machine, and what has no owner any more.

    Runs of others, alive beside the tests, do not count.
    """
    found = set()
    for pid in (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()):
        variables = environment_of(pid)
        if "GIVEWAY_RUN" not in variables:
            continue
        controller, _, started = variables.get("GIVEWAY_CONTROLLER", "0:").partition(":")
        owner_lives = str(start_time(int(controller))) == started
        theirs = environment_of(int(controller)).get("GIVEWAY_TESTS") != str(os.getpid())
        if not (owner_lives and theirs) or int(controller) == os.getpid():
            found.add(f"process {pid}")
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found |= {f"link {line.split(':')[1].strip()}" for line in links.splitlines()}
    return found


def environment_of(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """The test leaves no process, interface or bridge behind."""
    before = ours()
    yield
    assert ours() - before == set()


@pytest.fixture(scope="session")
def small_experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hosts, one second: everything that a run has, as small as it gets."""
    path = tmp_path_factory.mktemp("experiment") / "small.yaml"
    path.write_text(
        """
name: small
question: Does a whole run work?
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 1 s
warmup: 100 ms
cooldown: 100 ms
training:
  - {name: job, profile: resnet50-thesis, model: 500 kB, workers: all, iteration: 120 ms,
     fusion: 100 kB, order: layer, barrier: false, check: true}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host, pairs: all-to-all}
policies: [fifo, strict-priority]
seeds: [0]
dilation: 1
"""
    )
    return path
