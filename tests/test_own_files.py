"""A student's own policy or topology, in a folder anywhere: `--policies`, `--topologies`."""

from pathlib import Path

import pytest

from tests.conftest import giveway

POLICY = '''
"""Flows first, yet training is sure of a share of every link."""

from basics.options import Option
from policies.link import Discipline, LinkPolicy, Port, ServiceClass


def discipline(port: Port, share: float) -> Discipline:
    return Discipline((
        ServiceClass("high", level=0, bands=("high",)),
        ServiceClass("low", level=1, floor=share, bands=("low",), rest=True),
    ))


POLICY = LinkPolicy(
    name="sure-of-some", title="Sure of some", description="two queues",
    flows="high", training="low", discipline=discipline,
    options={"share": Option("what the low queue is sure of", 0.01, 1, 0.4, step=None)},
)
'''
TRANSFER = """
from policies.transfer import fifo
from dataclasses import replace

POLICY = replace(fifo.POLICY, name="as-it-comes")
"""
TOPOLOGY = '''
"""Two switches in a row, half of the hosts on each."""

from topologies import Cable, Kind, Link, Topology, host_names


def build(hosts: int, cable: Cable) -> Topology:
    names = host_names(hosts)
    links = [Link(name, f"s{1 + at % 2}", cable) for at, name in enumerate(names)]
    return Topology(names, ("s1", "s2"), (*links, Link("s1", "s2", cable)))


KIND = Kind(build)
'''
EXPERIMENT = """
name: mine
topology: {kind: KIND, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 600 ms
training:
  - {name: job, profile: resnet50-thesis, model: 500 kB, workers: all, iteration: 120 ms}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host, pairs: all-to-all}
policies: [fifo, {policy: sure-of-some, share: 0.3}]
seeds: [0]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sure_of_some.py").write_text(POLICY)
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(EXPERIMENT.replace("KIND", "tor"))
    return path


def test_a_policy_of_ones_own_runs_without_a_clone(own: Path, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = giveway("run", file, "--engine", "fluid", "--policies", own, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Sure of some" in done.stdout
    refused = giveway("run", file, "--engine", "fluid", cwd=tmp_path, wait=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "sure-of-some" in refused.stderr


def test_a_topology_and_a_transfer_policy_of_ones_own(own: Path, tmp_path: Path) -> None:
    (own / "link").mkdir()
    (own / "sure_of_some.py").rename(own / "link" / "sure_of_some.py")
    (own / "transfer").mkdir()
    (own / "transfer" / "as_it_comes.py").write_text(TRANSFER)
    places = tmp_path / "places"
    places.mkdir()
    (places / "in_a_row.py").write_text(TOPOLOGY)
    listed = giveway("list", "--policies", own, "--topologies", places, cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in ("sure-of-some", "as-it-comes", "in-a-row"))
    file = tmp_path / "mine.yaml"
    file.write_text(EXPERIMENT.replace("KIND", "in-a-row"))
    ways = ["--policies", own, "--topologies", places]
    out = tmp_path / "out"
    done = giveway("run", file, "--engine", "fluid", *ways, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("fifo.py", POLICY, "rename it"),
        ("mine.py", POLICY.replace("sure-of-some", "fifo"), "choose another"),
        ("mine.py", "X = 1", "POLICY ="),
        ("mine.py", "def (", "line 1"),
        ("mine.py", "import no_such_module", "no_such_module"),
        ("mine.txt", "", "no file that ends in .py"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / name).write_text(content)
    done = giveway("list", "--policies", folder, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = giveway("list", "--topologies", tmp_path / "nothing", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_the_environment_will_do(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_POLICIES", str(own))
    done = giveway("list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sure-of-some" in done.stdout


@pytest.mark.virtual
def test_ones_own_policy_goes_into_the_guest(own: Path, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = giveway("run", file, "--engine", "virtual", "--policies", own, "--out", out)
    assert done.returncode == 0, done.stderr
    [label] = [path.name for path in out.iterdir() if path.name.startswith("sure-of-some")]
    assert not list((out / label / "seed-0").glob("own-*"))
