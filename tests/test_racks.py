"""Racks: which hosts they are, who is placed in them, and what is counted on their uplinks."""

from pathlib import Path

import pytest

import topologies
from analysis.link_use import places
from analysis.tables import carried_table
from basics.errors import BadInput
from testbed.spec import TrainingJob, load
from tests.conftest import REPOSITORY
from topologies import Cable

CABLE = Cable(rate_bps=10**9, delay_ns=1000, queue_packets=100)
FILE = """
name: racks
topology: {kind: leaf-spine, hosts: 12, leaves: 3, spines: 2, rate: 1 Gbit/s, delay: 1 us, queue: 9 packets}
duration: 1 s
training:
  - {name: job, profile: resnet50-thesis, model: 1 MB, aggregation: parameter-server, %s}
policies: [fifo]
seeds: [0]
"""  # noqa: E501


def jobs(folder: Path, said: str) -> tuple[TrainingJob, ...]:
    path = folder / "file.yaml"
    path.write_text(FILE % said)
    experiment = load(path)
    path.write_text(experiment.to_yaml())
    again = load(path)
    assert [(job.host_names, job.server_names) for job in again.training] == [
        (job.host_names, job.server_names) for job in experiment.training
    ]
    return experiment.training


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(f"h{number}" for number in numbers)


def test_a_rack_is_the_hosts_of_a_switch() -> None:
    known = topologies.available()
    assert known["tor"](3, CABLE).racks == (names(1, 2, 3),)
    assert known["leaf-spine"](4, CABLE, leaves=2, spines=1).racks == (names(1, 2), names(3, 4))
    racks = known["fat-tree"](16, CABLE, k=4).racks
    assert racks[0] == names(1, 2)
    assert len(racks) == 8
    half = known["fat-tree"](8, CABLE, k=4)  # fewer hosts than room: one on each edge switch
    assert half.racks == tuple(names(number) for number in range(1, 9))


def test_workers_fill_racks_or_take_turns(tmp_path: Path) -> None:
    [packed] = jobs(tmp_path, "workers: 5, servers_on: [h12]")
    assert packed.host_names == names(1, 2, 3, 4, 5)
    [spread] = jobs(tmp_path, "workers: 5, workers_on: spread, servers_on: [h12]")
    assert spread.host_names == names(1, 5, 9, 2, 6)


def test_servers_by_rack_have_what_workers_leave(tmp_path: Path) -> None:
    [packed] = jobs(tmp_path, "workers: 4, servers: 3, servers_on: racks-packed")
    assert packed.server_names == names(5, 6, 7)
    [spread] = jobs(tmp_path, "workers: 4, servers: 3, servers_on: racks-spread")
    assert (spread.host_names, spread.server_names) == (names(1, 2, 3, 4), names(5, 9, 6))
    [rest] = jobs(tmp_path, "servers: 3, servers_on: racks-spread")
    assert rest.server_names == names(1, 5, 9)
    assert len(rest.host_names) == 9


def test_jobs_take_their_servers_hosts_one_after_another(tmp_path: Path) -> None:
    made = jobs(tmp_path, "count: 3, workers: 4, servers: 3, servers_on: racks-packed")
    assert [job.server_names for job in made] == [names(5, 6, 7), names(8, 9, 10), names(11, 12, 5)]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "workers: 10, servers: 3, servers_on: racks-spread",
            "training.0.servers: found 3, but the workers leave 2 hosts",
        ),
        ("workers: [h1, h2], workers_on: spread", "found beside workers that are listed"),
        ("workers_on: sideways", "unknown order of racks"),
        ("servers_on: racks-sideways", "racks-packed, racks-spread"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(tmp_path: Path, said: str, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        jobs(tmp_path, said)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("topology.oversubscription=0.5", "topology.oversubscription: found 0.5; it must be a num"),
        ("training.0.reduce={by: tree, degree: 1}", "training.0.reduce.degree: found 1; it must"),
        ("training.0.servers=100", "training.0.servers: found 100, but the workers leave 4 hosts"),
        ("topology.k=34", "topology.k: found 34; it must be"),
    ],
)
def test_what_a_shipped_file_may_not_be_told_ends_in_a_line_and_code_2(
    setting: str, line: str
) -> None:
    with pytest.raises(BadInput) as caught:
        load(REPOSITORY / "experiments" / "rack-aggregation.yaml", [setting])
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 2


def test_links_are_cables_of_hosts_uplinks_of_racks_or_above() -> None:
    tree = topologies.available()["fat-tree"](16, CABLE, k=4)
    found = places(tree.link_names)
    assert found["h3->edge2"] == found["edge2->h3"] == "hosts"
    assert found["edge2->agg1"] == found["agg2->edge1"] == "racks"
    assert found["agg1->core1"] == found["core4->agg2"] == "core"
    counts = [list(found.values()).count(place) for place in ("hosts", "racks", "core")]
    assert counts == [2 * 16, 2 * 16, 2 * 16]
    assert set(places(topologies.available()["tor"](2, CABLE).link_names).values()) == {"hosts"}
    racks = topologies.available()["leaf-spine"](4, CABLE, leaves=2, spines=2)
    assert set(places(racks.link_names).values()) == {"hosts", "racks"}


def test_a_report_says_what_links_carry_by_tier_where_there_are_racks() -> None:
    carried = {"carried_hosts_byte": 3e9, "carried_racks_byte": 2e9, "carried_core_byte": 1e9}
    assert carried_table({"policies": {"fifo": {"links": carried}}}) == [
        ("cables of hosts", ["3.00\N{NO-BREAK SPACE}GB"]),
        ("uplinks of racks", ["2.00\N{NO-BREAK SPACE}GB"]),
        ("links above", ["1.00\N{NO-BREAK SPACE}GB"]),
    ]
    alone = {**carried, "carried_racks_byte": 0.0}
    assert carried_table({"policies": {"fifo": {"links": alone}}}) == []
