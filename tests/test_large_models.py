"""Jobs without layers: bytes that are ready as a whole, after a time drawn from the seed."""

from itertools import pairwise
from pathlib import Path

import pytest

from basics.errors import BadInput
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.run import in_turns
from testbed.spec import load

FILE = """
name: large
topology: {kind: tor, hosts: 5, rate: 1 Gbit/s, delay: 1 us, queue: 1000 packets}
duration: 4 s
training:
  - {name: job, bytes: 1 MB, aggregation: parameter-server, servers_on: packed, %s}
policies: [fifo]
seeds: [0, 1]
"""


def computed(folder: Path, said: str) -> list[dict[tuple[int, int], tuple[int, int]]]:
    """Of each seed, by worker and iteration: when its compute began, and how long it took."""
    path = folder / "file.yaml"
    path.write_text(FILE % said)
    found = []
    for run in in_turns(load(path), "test00"):
        records = Records()
        fluid.perform(run, fluid.settle(run.experiment, print, ""), records, lambda time_ns: None)
        rows = [row for row in records.tables["computes"] if row[3] == "backward"]
        found.append({(row[1], row[2]): (row[5], row[6] - row[5]) for row in rows})
    return found


def test_compute_is_drawn_for_every_worker_and_iteration_from_the_seed(tmp_path: Path) -> None:
    first, second = computed(tmp_path, "compute: 'uniform(100 ms, 200 ms)'")
    lengths = [ns for _, ns in first.values()]
    assert len(set(lengths)) == len(lengths) > 40
    assert 100e6 <= min(lengths) < 110e6
    assert 190e6 < max(lengths) <= 200e6
    both = first.keys() & second.keys()
    assert all(first[key][1] != second[key][1] for key in both)
    again, _ = computed(tmp_path, "compute: 'uniform(100 ms, 200 ms)'")
    assert again == first


def test_an_iteration_begins_no_sooner_than_asked_after_the_one_before(tmp_path: Path) -> None:
    found, _ = computed(tmp_path, "compute: 20 ms, every: 300 ms")
    starts = [start for (worker, _), (start, _) in sorted(found.items()) if worker == 0]
    assert len(starts) == 14
    assert {after - before for before, after in pairwise(starts)} == {300_000_000}


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("every: 1 s", "training.0.compute: missing"),
        ("compute: 'uniform(2 s, 1 s)'", "compute: found 'uniform(2 s, 1 s)'; write the shorter"),
        ("compute: 3", "or uniform(15 s, 30 s)"),
        ("compute: 1 s, profile: resnet50-thesis", "bytes: found beside profile"),
        ("compute: 1 s, model: 3 MB", "model: found beside bytes"),
        ("compute: 1 s, iteration: 3 s", "iteration: found beside bytes"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(tmp_path: Path, said: str, line: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE % said)
    with pytest.raises(BadInput) as caught:
        load(path)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_times_are_those_of_a_profile_or_there_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE.replace("bytes: 1 MB", "profile: resnet50-thesis") % "every: 1 s")
    with pytest.raises(BadInput, match="every: found without bytes"):
        load(path)
