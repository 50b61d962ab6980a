"""A schedule may lie anywhere, also where the virtual engine's guest does not look."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.spec import load
from testbed.virtual.engine import with_schedules_inside
from tests.conftest import giveway

TINY = """
name: tiny
topology: {kind: tor, hosts: 2, rate: 100 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 100 ms
flows: [{name: two, schedule: two.csv}]
policies: [fifo]
seeds: [0]
"""
FLOWS = "start_ns,src,dst,size_byte\n0,h1,h2,2000\n5000000,h2,h1,3000\n"


@pytest.fixture(params=["/dev/shm", "/run"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="giveway-test-", dir=request.param) as folder:
            yield Path(folder)
    except OSError as error:
        pytest.skip(f"{request.param}: {error.strerror}")


@pytest.mark.virtual
def test_the_guest_plays_a_schedule_from_any_folder(place: Path, tmp_path: Path) -> None:
    (place / "two.csv").write_text(FLOWS)
    (place / "tiny.yaml").write_text(TINY)
    done = giveway("run", place / "tiny.yaml", "--engine", "virtual", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "out" / "fifo" / "seed-0").glob("*.csv"))


def test_the_copy_is_beside_the_experiment_and_has_the_same_flows(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "two.csv").write_text(FLOWS)
    (outside / "tiny.yaml").write_text(TINY)
    experiment = load(outside / "tiny.yaml")
    changed, copies = with_schedules_inside(experiment, inside)
    (inside / "experiment.yaml").write_text(changed.to_yaml())
    (outside / "two.csv").unlink()
    (mix,) = load(inside / "experiment.yaml").flows
    assert mix.schedule == inside / copies[0]
    assert (inside / copies[0]).read_text() == FLOWS
