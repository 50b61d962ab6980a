"""What tests share: experiments small enough to run for real, and a look at what is left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import docker
from testbed.errors import CannotRun
from testbed.virtual.build import find

REPOSITORY = Path(__file__).parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = {}
    if os.environ.get("GIVEWAY_SLOW") != "yes":
        missing["slow"] = "takes minutes: GIVEWAY_SLOW=yes runs it, as CI does"
    if os.geteuid() != 0:
        missing["root"] = "needs root"
    if find() is None:
        missing["virtual"] = "the virtual engine's kernel is not built: make virtual"
    if any(item.get_closest_marker("docker") for item in items):
        try:
            docker.demand_image()
        except CannotRun as why:
            missing["docker"] = str(why)
    for item in items:
        for marker, reason in missing.items():
            # Not item.keywords: those hold the names of folders too.
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def giveway(*arguments: str | Path, limit_s: float = 100) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "testbed", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def ours() -> set[str]:
    """Everything on this machine that looks like a run of ours."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"GIVEWAY_RUN=" in (folder / "environ").read_bytes():
                found.add(f"process {folder.name}")
        except OSError:
            continue
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found |= {f"link {line.split(':')[1].strip()}" for line in links.splitlines()}
    return found


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
