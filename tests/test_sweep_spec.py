"""The sweep block: axes, points, and every mistake in one line before anything starts."""

from math import prod
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import BadInput
from testbed.spec import sweep_file
from testbed.spec.yaml_file import Document
from testbed.spec.yaml_nodes import composed
from tests.conftest import REPOSITORY, giveway

GRID = REPOSITORY / "experiments" / "thesis-grid.yaml"
BASE = """
name: small
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 1 s
training: [{name: job, profile: resnet50-thesis, model: 500 kB, iteration: 120 ms}]
flows: [{name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host}]
policies: [fifo, strict-priority]
seeds: [0, 1]
"""


def written(tmp_path: Path, sweep: object) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(BASE + yaml.safe_dump({"sweep": sweep}))
    return path


def test_the_thesis_grid_is_16_cells_of_6_runs() -> None:
    sweep = sweep_file.load(GRID)
    assert len(sweep.points) == 16
    assert sweep.runs == 96
    iterations = {
        point.at["ratio"]: point.experiment.training[0].iteration_ns for point in sweep.points
    }
    # R x M x 2(1 - 1/8) x 8 bit / 10 Gbit/s, M = 100 MB
    assert iterations == {str(r): r * 100_000_000 * 14 * 10**9 // 10**10 for r in (16, 8, 4, 2)}
    arrivals = [point.experiment.flows[0].arrivals_per_second for point in sweep.points[:4]]
    assert arrivals == [23, 46, 92, 184]


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_every_combination_is_a_point_once(lengths: list[int]) -> None:
    block = {f"a{n}": {"key": "k", "values": list(range(ln))} for n, ln in enumerate(lengths)}
    root = composed(yaml.safe_dump({"sweep": block}))
    assert root is not None
    axes = sweep_file.read_axes(Document(Path("x.yaml"), root.data, root))
    grid = list(sweep_file._grid(axes))
    assert len(grid) == len(set(grid)) == prod(lengths)
    assert all(len(labels) == len(lengths) for labels in grid)


def test_a_value_may_set_several_keys(tmp_path: Path) -> None:
    variants = {
        "fifo": {"training.0.order": "fifo", "training.0.barrier": True},
        "layer": {"training.0.order": "layer", "training.0.barrier": False},
    }
    sweep = sweep_file.load(written(tmp_path, {"variant": {"values": variants}}))
    jobs = [point.experiment.training[0] for point in sweep.points]
    assert [(job.order, job.barrier) for job in jobs] == [("fifo", True), ("layer", False)]


def test_points_are_checked_as_files_are(tmp_path: Path) -> None:
    path = written(tmp_path, {"topology.hosts": [2, 4]})
    one = sweep_file.load(path).points[1].experiment
    plain = tmp_path / "plain.yaml"
    plain.write_text(BASE)
    from testbed.spec import load

    assert one == load(plain, ["topology.hosts=4"])


def test_the_resolved_file_is_the_same_sweep(tmp_path: Path) -> None:
    sweep = sweep_file.load(GRID)
    again = tmp_path / "again.yaml"
    again.write_text(sweep.to_yaml())
    assert sweep_file.load(again).fingerprint() == sweep.fingerprint()


def test_the_fingerprint_sees_what_is_run_and_not_what_it_is_called(tmp_path: Path) -> None:
    one = sweep_file.load(written(tmp_path, {"topology.hosts": [3, 4]})).fingerprint()
    other = sweep_file.load(written(tmp_path, {"topology.hosts": [3, 5]})).fingerprint()
    titled = {"size": {"title": "hosts", "key": "topology.hosts", "values": [3, 4]}}
    assert one != other
    assert sweep_file.load(written(tmp_path, titled)).fingerprint() == one


def test_a_replayed_schedule_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("start_ns,src,dst,size_byte\n0,h1,h2,1000\n")
    path = written(tmp_path, {"topology.hosts": [3, 4]})
    setting = [f"flows=[{{name: web, schedule: {flows}}}]"]
    before = sweep_file.load(path, setting).fingerprint()
    flows.write_text("start_ns,src,dst,size_byte\n0,h1,h2,2000\n")
    assert sweep_file.load(path, setting).fingerprint() != before


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({}, "no axis"),
        ([1], "a list"),
        ({"topology.hosts": []}, "no value"),
        ({"topology.hosts": 3}, "list of values"),
        ({"topology.hots": [3]}, "did you mean hosts"),
        ({"toplogy.hosts": [3]}, "topology"),
        ({"training.7.iteration": ["1 s"]}, "indexes 0 to 0"),
        ({"topology.hosts": [3, 1]}, "at the sweep's point topology.hosts: 1"),
        ({"topology.hosts": [3, 3]}, "twice"),
        ({"topology.hosts": [[3]]}, "give it a label"),
        ({"a": {"values": [1, 2]}}, "add key"),
        ({"a": {"values": {"x": 3}}}, "what it sets"),
        ({"a": {"key": "topology.hosts", "vals": [3]}}, "values"),
        ({"policy": ["fifo"]}, "summary.parquet"),
        ({"a b": [1]}, "name"),
        ({"s": {"key": "seeds", "values": {"a": [1], "b": [2]}}}, "other seeds"),
        ({"p": {"key": "policies", "values": {"a": ["fifo"], "b": ["fq-codel"]}}}, "policies"),
    ],
)
def test_a_mistake_in_the_block_is_one_line(tmp_path: Path, block: object, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        sweep_file.load(written(tmp_path, block))
    assert said in str(caught.value)
    assert "sweep.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_huge_grid_needs_a_yes(tmp_path: Path) -> None:
    many = {f"a{n}": {"key": "seeds.0", "values": list(range(100))} for n in range(5)}
    with pytest.raises(BadInput, match="40000000000 runs; more than 100000 need --yes"):
        sweep_file.load(written(tmp_path, many))


def test_run_says_to_use_sweep_and_sweep_to_use_run() -> None:
    for command, file, said in (
        ("run", "experiments/thesis-grid.yaml", "giveway sweep"),
        ("sweep", "experiments/quickstart.yaml", "giveway run"),
    ):
        done = giveway(command, file)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
