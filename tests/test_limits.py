"""What is too large for a live engine is refused in one line, before anything is started."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from basics.errors import CannotRun
from testbed.engine import MULTIPATH, demand_features
from testbed.fluid import engine as fluid
from testbed.fluid import memory
from testbed.live import limits
from testbed.realtime import engine
from testbed.spec import Experiment, load
from testbed.virtual import engine as virtual
from testbed.virtual.features import features, tcp_names
from tests.conftest import REPOSITORY, giveway

QUICKSTART = REPOSITORY / "experiments" / "quickstart.yaml"
LINK = "rate: 10 Gbit/s, delay: about 10 us, queue: 100 packets"


def quickstart(topology: str) -> Experiment:
    return load(QUICKSTART, [f"topology={{{topology}, {LINK}}}"])


def test_a_switch_with_more_ports_than_a_bridge_is_refused() -> None:
    limits.demand_bridge(quickstart("kind: tor, hosts: 1023"))
    with pytest.raises(CannotRun, match="a Linux bridge has 1023 ports"):
        limits.demand_bridge(quickstart("kind: tor, hosts: 1024"))
    limits.demand_bridge(quickstart("kind: fat-tree, k: 16"))


def test_files_terminals_and_memory_are_counted_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = quickstart("kind: fat-tree, k: 16")
    files = 2 * (1024 + 320) + 2 * 1024 + 1 + limits.FILES_BESIDES
    assert limits.files_of(tree) == files
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    monkeypatch.setattr(limits, "terminals_free", lambda: 1344)
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 2**40}))
    limits.demand_room(tree)
    monkeypatch.setattr(limits, "terminals_free", lambda: 1343)
    with pytest.raises(CannotRun, match="1024 hosts and 320 switches need 1344 terminals"):
        limits.demand_room(tree)
    monkeypatch.setattr("resource.getrlimit", lambda _: (files - 1, files - 1))
    with pytest.raises(CannotRun, match=f"need {files} open files"):
        limits.demand_room(tree)
    monkeypatch.undo()
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 2**30}))
    with pytest.raises(CannotRun, match=r"GiB of memory, and 1\.0 GiB are free"):
        limits.demand_room(quickstart("kind: fat-tree, k: 8"))


@pytest.mark.parametrize("most", [500, 4096, resource.RLIM_INFINITY])
def test_a_limit_that_may_be_raised_is(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, most))
    monkeypatch.setattr("resource.setrlimit", lambda _, limits: raised.append(limits))
    limits.demand_files(64, "this needs")
    assert raised == []
    limits.demand_files(500, "this needs")
    assert raised == [(500, most)]


@pytest.mark.virtual
def test_too_few_open_files_for_a_guest_are_said_before_it_starts(
    small_experiment: Path, tmp_path: Path
) -> None:
    run = ["run", small_experiment, "--engine", "virtual", "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "testbed", *run, "--set", "dilation=auto"]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -n 64; exec "$@"', "bash", *command], cwd=REPOSITORY,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"giveway: .* needs \d+ open files, and 64 are allowed: .*\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_switches_and_their_links_need_memory_in_the_guest_and_a_rack_what_it_always_did() -> None:
    """A rack's share is part of the kernel's command line, and so of every digest."""
    rack = quickstart("kind: tor, hosts: 16")
    hosts_and_flows = virtual.memory_byte(rack)
    tree = quickstart("kind: fat-tree, k: 4")
    inner = 19 * virtual.MEMORY_A_SWITCH + 32 * virtual.MEMORY_A_LINK
    assert virtual.memory_byte(tree) == hosts_and_flows + inner
    flows = int(46.0 * 16 * 4 * virtual.MEMORY_A_FLOW)
    assert hosts_and_flows == virtual.BASE_MEMORY + 16 * virtual.MEMORY_A_HOST + flows


def test_a_kernel_without_multipath_refuses_several_ways_and_takes_a_rack() -> None:
    without = features() - {MULTIPATH}
    assert MULTIPATH in features()
    demand_features(quickstart("kind: tor, hosts: 4"), without, tcp_names(), "this kernel")
    spines = quickstart("kind: leaf-spine, hosts: 4, leaves: 2, spines: 2")
    demand_features(spines, features(), tcp_names(), "this kernel")
    with pytest.raises(CannotRun, match="leaf-spine has several ways between two hosts"):
        demand_features(spines, without, tcp_names(), "this kernel")


@pytest.mark.root
def test_the_realtime_engine_asks_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "terminals_free", lambda: 3)
    with pytest.raises(CannotRun, match="need 5 terminals, and 3 are free"):
        engine.demand(load(QUICKSTART))


@pytest.mark.virtual
def test_too_many_hosts_for_the_guest_end_with_exit_code_3(tmp_path: Path) -> None:
    topology = f"{{kind: leaf-spine, hosts: 4096, leaves: 256, spines: 64, {LINK}}}"
    done = giveway(
        "run", QUICKSTART, "--engine", "virtual", "--set", f"topology={topology}",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 3
    assert "GiB of memory in the guest" in done.stderr
    assert not (tmp_path / "out").exists()


MANY = """
name: many
topology: {kind: fat-tree, k: 32, rate: 10 Gbit/s, delay: 1 us, queue: 1000 packets}
duration: 1 s
training:
  - {name: job, bytes: 100 MB, compute: 1 ms, aggregation: parameter-server, workers: 6400,
     servers: 1000, servers_on: racks-spread}
policies: [fifo]
seeds: [0]
"""


def test_a_simulation_that_does_not_fit_is_refused_before_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text(MANY)
    many = load(path)
    assert memory.connections(many.training[0]) == 2 * 6400 * 1000
    with pytest.raises(CannotRun) as caught:
        fluid.demand(many)
    assert len(str(caught.value).splitlines()) == 1
    assert "12800000 connections of training jobs, 24576 links" in str(caught.value)
    assert caught.value.exit_code == 3
    assert str(caught.value).endswith("most of it goes with fewer servers or workers")
    summed = load(path, ["training.0.reduce={by: rack, chunk: 100 MB}", "training.0.servers=100"])
    assert memory.needed_byte(summed) < 5e9


def test_what_does_not_fit_says_what_to_take_less_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_byte", lambda: 1)
    for settings, less in (
        (["training=[]", "duration=1000 s"], "a shorter duration, or fewer arrivals"),
        (["training=[]", "flows.0.arrivals=1 per second per host"], "a smaller topology"),
    ):
        with pytest.raises(CannotRun, match=f"{less}$"):
            fluid.demand(load(QUICKSTART, settings))


def test_no_more_simulations_at_once_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    small = load(QUICKSTART)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(fluid, "free_byte", lambda: 7 * memory.needed_byte(small) // 2)
    assert fluid.parallel(small) == 3
    monkeypatch.setattr(fluid, "free_byte", lambda: 0)
    assert fluid.parallel(small) == 1
