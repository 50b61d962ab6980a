"""Hosts that are Docker containers: what they reach, what they leave, and how they break."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import topologies
from basics.errors import CannotRun
from policies.link import link_policies
from testbed.clean import SOCKETS, clean
from testbed.containers import docker_engine, image, isolation
from testbed.containers.docker_engine import RUN_LABEL
from testbed.containers.hosts import Containers
from testbed.engine import Wiring
from testbed.live.network import Network
from testbed.run_folder import RunFolder
from testbed.spec.hosts import ContainerSpec
from tests.conftest import REPOSITORY, giveway, ours

pytestmark = [pytest.mark.root, pytest.mark.docker]


def in_docker() -> set[str]:
    """Everything that the engine holds, and our sockets."""
    found = {f"container {name}" for name in docker_engine.ask("ps", "-aq").split()}
    found |= {f"network {name}" for name in docker_engine.ask("network", "ls", "-q").split()}
    found |= {f"volume {name}" for name in docker_engine.ask("volume", "ls", "-q").split()}
    return found | ({str(path) for path in SOCKETS.iterdir()} if SOCKETS.is_dir() else set())


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = in_docker() | ours()
    yield
    assert (in_docker() | ours()) - before == set()


@pytest.fixture
def experiment(small_experiment: Path, tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(small_experiment.read_text() + "hosts: docker\n")
    return path


def manifest(out: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((out / "fifo/seed-0/manifest.json").read_text())
    return content


# A run that goes well


SERVERS = """
name: servers
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: about 10 us, queue: 1000 packets}
hosts: docker
duration: 2 s
training:
  - {name: ps, count: 2, profile: resnet32-cpu, model: 100 kB, aggregation: parameter-server,
     servers_on: packed, iteration: 20 ms, steps: 3, check: true}
policies: [tensorlights-srf]
seeds: [0]
dilation: 1
"""


def test_parameter_servers_live_in_containers_even_if_a_policy_watches_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "servers.yaml").write_text(SERVERS)
    out = tmp_path / "out"
    done = giveway("run", tmp_path / "servers.yaml", "--out", out)
    assert done.returncode == 0, done.stderr
    jobs = pd.read_parquet(out / "tensorlights-srf" / "seed-0" / "jobs.parquet")
    assert list(jobs.status) == ["finished", "finished"]


def test_a_run_in_containers_leaves_records_and_nothing_else(
    experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = giveway("run", experiment, "--out", out, "--policy", "fifo")  # check: true sums numbers
    assert done.returncode == 0, done.stderr
    found = manifest(out)
    assert (found["status"], found["engine"], found["hosts"]) == ("finished", "realtime", "docker")
    container = found["container"]
    assert isinstance(container, dict)
    assert container["image_id"].startswith("sha256:")
    assert container["image_inputs"] == image.digest()
    assert container["docker"] == docker_engine.demand_engine().version
    folder = out / "fifo" / "seed-0"
    assert len(pd.read_parquet(folder / "iterations.parquet")) >= 3
    assert pd.read_parquet(folder / "flows.parquet").end_ns.notna().any()
    assert pd.read_parquet(folder / "hosts.parquet").iloc[:, 2].sum() > 0  # processors were seen
    assert {path.stat().st_uid for path in folder.rglob("*")} == {os.getuid()}


# Isolation


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Containers, Network]]:
    cable = topologies.Cable(10**8, 0, 100)
    topology = topologies.available()["tor"](2, cable)
    folder = RunFolder(tmp_path / "run")
    limits = ContainerSpec.model_validate({"cpus": 0.5, "memory": "200 MB"})
    with (
        Containers(topology.hosts, limits, "test00", folder) as containers,
        Network(
            topology,
            link_policies()["fifo"],
            Wiring(),
            run_id="test00",
            containers=containers.pids,
        ) as network,
    ):
        yield containers, network


def knock(container: str, address: str) -> str:
    """What a process in the container gets when it connects: REFUSED means that it got there."""
    code = (
        "import errno, socket; s = socket.socket(); s.settimeout(1); "
        f"print(errno.errorcode.get(s.connect_ex(({address!r}, 9))))"
    )
    return docker_engine.ask("exec", container, "python3", "-c", code).strip()


def test_a_container_reaches_the_hosts_of_its_run_and_nothing_else(
    pair: tuple[Containers, Network],
) -> None:
    containers, network = pair
    h1 = containers.by_host["h1"].name
    refused, unreachable = (
        errno.errorcode[code] for code in (errno.ECONNREFUSED, errno.ENETUNREACH)
    )
    assert knock(h1, network.address("h2")) == refused
    assert knock(h1, isolation.OUTSIDE) == unreachable
    here = json.loads(subprocess.check_output(["ip", "-j", "-4", "addr"]))
    addresses = [info["local"] for link in here for info in link["addr_info"]]
    for address in addresses:
        if not address.startswith(("127.", "10.")):
            assert knock(h1, address) == unreachable
    # In 10/8 too, only the hosts of the run answer.
    assert knock(h1, "10.99.99.99") not in (refused, "None")


def test_a_way_out_is_found(pair: tuple[Containers, Network]) -> None:
    _, network = pair
    pid = network.pid("h1")
    assert isolation.ways_out(pid, {"h1-eth0"}) == []
    enter = ["nsenter", "-t", str(pid), "-n", "ip"]
    subprocess.run([*enter, "route", "add", "default", "dev", "h1-eth0"], check=True)
    found = isolation.ways_out(pid, {"h1-eth0"})
    assert "a route to default" in found
    subprocess.run([*enter, "link", "add", "docker0", "type", "bridge"], check=True)
    assert "the interface docker0" in isolation.ways_out(pid, {"h1-eth0"})


def test_containers_have_limits_and_no_rights(pair: tuple[Containers, Network]) -> None:
    containers, _ = pair
    container = containers.by_host["h2"]
    form = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}"
    assert docker_engine.ask("inspect", "-f", form, container.name).split() == [
        "500000000",
        "200000000",
        "200000000",
    ]
    status = Path(f"/proc/{container.pid}/status").read_text()
    assert "CapBnd:\t0000000000000000" in status
    assert "Uid:\t10001\t10001" in status
    # The real-time class would not heed the limit of processors.
    assert os.sched_getscheduler(container.pid) == os.SCHED_OTHER


def test_doctor_looks_from_inside() -> None:
    assert isolation.look_from_inside(docker_engine.demand_image()) == []
    done = giveway("doctor")
    assert "isolation     yes" in done.stdout


# What is missing


def test_without_an_engine_the_run_does_not_start(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("GIVEWAY_DOCKER_RUN", str(tmp_path))
    done = giveway("run", experiment, "--out", tmp_path / "out")
    assert done.returncode == 3
    assert "needs a Docker engine" in done.stderr
    assert "make image" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_image_says_how_to_make_it() -> None:
    missing = image.Image("giveway-no-such-image", "image-horovod")
    said = "no image giveway-no-such-image yet: run `make image-horovod`"
    with pytest.raises(CannotRun, match=said):
        docker_engine.demand_image(missing)


def test_a_stale_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "digest", lambda wanted: "another")
    with pytest.raises(CannotRun, match=r"is stale: .* run `make image`"):
        docker_engine.demand_image()


# What breaks in mid-run


class Going:
    """A run under way in containers."""

    def __init__(self, experiment: Path, out: Path) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "testbed", "run", str(experiment), "--out", str(out),
             "--policy", "fifo", "--set", "duration=30 s", "--wait"],
            cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def container(self, host: str) -> str:
        """The name of a host's container, once its worker is at work."""
        journal = self.out / "fifo/seed-0/journals" / f"jobs-{host}.jsonl"
        for _ in range(600):
            if journal.exists():
                time.sleep(1)  # well into the run
                names = docker_engine.ask(
                    "ps", "--format", "{{.Names}}", "-f", f"label={RUN_LABEL}"
                )
                return next(name for name in names.split() if name.endswith(f"-{host}"))
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate())
            time.sleep(0.05)
        raise AssertionError(f"{journal} never came")

    def ends_within(self, limit_s: float) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=limit_s)
        return self.process.returncode, errors


@pytest.fixture
def going(experiment: Path, tmp_path: Path) -> Iterator[Going]:
    run = Going(experiment, tmp_path / "out")
    yield run
    if run.process.poll() is None:
        run.process.kill()
        run.process.communicate()
    clean()


def test_a_killed_container_ends_the_run_with_its_name(going: Going) -> None:
    docker_engine.ask("kill", going.container("h2"))
    code, errors = going.ends_within(10)
    assert code == 4
    assert "the container of h2 was ended in mid-run, by signal 9" in errors
    assert manifest(going.out)["status"] == "failed"


def test_ctrl_c_removes_the_containers(going: Going) -> None:
    going.container("h1")
    going.process.send_signal(signal.SIGINT)
    assert going.ends_within(5)[0] == 130


def test_containers_of_a_killed_controller_end_and_are_cleaned(going: Going) -> None:
    name = going.container("h1")
    going.process.kill()
    going.process.communicate()
    for _ in range(100):
        if docker_engine.ask("inspect", "-f", "{{.State.Running}}", name).strip() == "false":
            break
        time.sleep(0.05)
    assert docker_engine.ask("inspect", "-f", "{{.State.Running}}", name).strip() == "false"
    done = giveway("clean")
    assert f"removed container {name}" in done.stdout
    assert docker_engine.containers(RUN_LABEL) == []


def test_a_container_without_enough_memory_is_named(experiment: Path, tmp_path: Path) -> None:
    settings = ["container={memory: 64 MB}", "training.0.model=400 MB", "training.0.fusion=400 MB"]
    done = giveway(
        *("run", experiment, "--out", tmp_path / "out", "--policy", "fifo"),
        *(word for setting in settings for word in ("--set", setting)),
    )
    assert done.returncode == 4
    assert "ran out of memory (container.memory is 64 MB)" in done.stderr


@pytest.mark.docker_horovod
def test_a_container_too_small_for_torch_is_named(experiment: Path, tmp_path: Path) -> None:
    """Not after minutes, in which the kernel reloads torch's pages again and again."""
    settings = ["container={memory: 64 MB}", "training.0.backend=horovod"]
    settings += ["training.0.order=fifo", "training.0.barrier=true"]  # as Horovod has them
    done = giveway(
        *("run", experiment, "--out", tmp_path / "out", "--policy", "fifo"),
        *(word for setting in settings for word in ("--set", setting)),
        limit_s=60,
    )
    assert done.returncode == 4
    assert "ran out of memory (container.memory is 64 MB)" in done.stderr


def test_clean_removes_only_containers_of_dead_runs() -> None:
    mine = docker_engine.labels("test00")
    gone = [label.replace(f"={os.getpid()}:", "=4194303:") for label in mine]
    labels = {"dead": gone, "alive": mine, "not-ours": ["--label=something=else"]}
    made = {}
    try:
        for name, given in labels.items():
            command = ["--entrypoint=sleep", image.NATIVE.name, "60"]
            made[name] = docker_engine.ask("run", "-d", "--network=none", *given, *command).strip()
        removed = clean()
        assert len(removed) == 1
        left = docker_engine.ask("ps", "-aq", "--no-trunc").split()
        assert made["dead"] not in left
        assert {made["alive"], made["not-ours"]} <= set(left)
    finally:
        docker_engine.remove(
            name[:12] for name in made.values() if name[:12] in docker_engine.ask("ps", "-aq")
        )
