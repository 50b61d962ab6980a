"""Sums on the way to parameter servers, and all-reduces by rack: by arithmetic, with numbers."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import BadInput
from testbed.fluid import engine as fluid
from testbed.fluid.world import JobStreams, Records
from testbed.run import in_turns
from testbed.spec import load
from tests.test_collectives import played
from tests.test_server_numbers import PLAN as SERVED
from tests.test_server_numbers import play
from tests.toy_world import ToyNetwork
from workloads import collectives
from workloads.collectives.aggregation import DIRECT, TREE, Aggregation, pull, push
from workloads.counting import check_sum, sample_numbers
from workloads.job_plan import JobPlan
from workloads.profiles import Layer
from workloads.rank import Rank

BY_RACK = ["hierarchical-ring", "hierarchical-tree"]

aggregations = st.builds(
    Aggregation,
    racks=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    servers=st.integers(1, 4),
    degree=st.sampled_from([None, 2, 3]),
    across=st.sampled_from([DIRECT, TREE]),
    degree_across=st.sampled_from([2, 3]),
    pieces=st.integers(1, 3),
    multicast=st.booleans(),
    on_hosts=st.booleans(),
)


@given(how=aggregations, count=st.integers(1, 200), random=st.randoms(use_true_random=False))
def test_a_push_sums_every_gradient_once_and_a_pull_brings_the_sum_to_everybody(
    how: Aggregation, count: int, random: Random
) -> None:
    ranks = how.ranks
    vectors = [sample_numbers(count, rank + 1) for rank in range(how.workers)]
    vectors += [np.zeros(count, np.float32) for _ in range(how.workers, ranks)]
    sent = Counter[tuple[int, int]]()
    for step in (push, pull):
        parts = [step(rank, how) for rank in range(ranks)]
        sent.update((rank, one.to) for rank, part in enumerate(parts) for one in part.sends)
        played(parts, how.blocks, vectors, random.choice)
    assert sorted(sent) == sorted(how.edges)
    for vector in vectors[: how.workers]:
        check_sum(vector, how.workers)


def received(how: Aggregation) -> dict[int, float]:
    """Vectors that arrive at each rank in a push."""
    found = Counter[int]()
    for rank in range(how.ranks):
        for one in push(rank, how).receives:
            found[rank] += one.blocks[1]
    return {rank: blocks / how.blocks for rank, blocks in found.items()}


def test_what_arrives_where_in_a_push_of_800_workers_in_racks_of_8() -> None:
    """The arithmetic of docs/mlnet.md: 7 at an aggregator, 2 in a tree, 100/P at each server."""
    racks = [worker // 8 for worker in range(800)]
    for servers in (10, 40):
        star = received(Aggregation(racks, servers))
        assert {star[root] for root in range(0, 800, 8)} == {7}
        assert {star[800 + server] for server in range(servers)} == {100 / servers}
        tree = received(Aggregation(racks, servers, degree=2))
        assert max(tree[worker] for worker in range(800) if worker in tree) == 2
        assert {tree[800 + server] for server in range(servers)} == {100 / servers}
        across = received(Aggregation(racks, servers, degree=2, across=TREE))
        assert {across[800 + server] for server in range(servers)} == {1 / servers}
        hosts = received(Aggregation(racks, servers, on_hosts=True))
        assert {hosts.get(worker, 0) for worker in range(800)} == {0}
        assert {hosts[800 + servers + rack] for rack in range(100)} == {8}
        assert {hosts[800 + server] for server in range(servers)} == {100 / servers}
        # Each tree begins elsewhere: no root gets much more than the one vector of the mean.
        assert max(across[root] for root in range(0, 800, 8)) <= 2 + 1.3


@pytest.mark.parametrize("name", BY_RACK)
@given(size=st.integers(1, 4), count=st.integers(2, 5), numbers=st.integers(1, 200), data=st.data())
def test_every_rank_ends_with_every_contribution_whatever_the_racks(
    name: str, size: int, count: int, numbers: int, data: st.DataObject
) -> None:
    ranks = size * count
    racks = data.draw(st.permutations([rank % count for rank in range(ranks)]))
    parts = [collectives.available()[name].part_in(rank, ranks, racks) for rank in range(ranks)]
    vectors = [sample_numbers(numbers, rank + 1) for rank in range(ranks)]
    choose = data.draw(st.randoms(use_true_random=False)).choice
    played(parts, ranks, vectors, choose)
    for vector in vectors:
        check_sum(vector, ranks)


def test_an_all_reduce_by_rack_sends_less_than_two_vectors_out_of_a_rack() -> None:
    racks = [0] * 4 + [1] * 4 + [2] * 4
    for name, most in (("hierarchical-ring", 2 * 2 / 3), ("hierarchical-tree", 2)):
        left = Counter[int]()
        for rank in range(12):
            for one in collectives.available()[name].part_in(rank, 12, racks).sends:
                left[racks[rank]] += one.blocks[1] * (racks[rank] != racks[one.to])
        assert max(left.values()) / 12 == pytest.approx(most)


# ---- in the worlds

REDUCE = {
    "degree": 2, "degree_across": 2, "across": DIRECT, "chunk_byte": 100_000, "multicast": True,
    "on_hosts": False,
}  # fmt: skip
PLAN = JobPlan(
    name="job", aggregation="parameter-server", workers=5, servers=2,
    layers=(Layer(400, 5, 7), Layer(800, 6, 8)), fusion_byte=900, barrier=True, start_ns=0,
    steps=3, check=False, bands=("all",), band="all", racks=(0, 0, 0, 1, 1), reduce=REDUCE,
)  # fmt: skip


@pytest.mark.parametrize(
    "told", [{}, {"degree": None}, {"across": TREE}, {"multicast": False}, {"on_hosts": True}]
)
def test_a_job_trains_on_links_that_are_numbers(told: dict[str, object]) -> None:
    network = ToyNetwork(replace(PLAN, reduce={**REDUCE, **told}))
    for rank in network.ranks:
        if isinstance(rank, Rank):
            network.at(0, rank.begin)
    network.run()
    made = Counter(row[2] for row in network.rows if row[0] == "iterations")
    assert made == dict.fromkeys(range(5), 3)
    pushed = sum(byte for (a, b), byte in network.carried.items() if b in (5, 6))
    assert pushed == 3 * 1200 * (1 if told.get("across") == TREE else 2)


@pytest.mark.parametrize("across", [DIRECT, TREE])
@pytest.mark.parametrize("degree", [None, 2])
@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("on_hosts", [False, True])
def test_real_numbers_are_summed_over_sockets(
    tmp_path: Path, degree: int | None, across: str, multicast: bool, on_hosts: bool
) -> None:
    told = {"degree": degree, "across": across, "multicast": multicast, "on_hosts": on_hosts}
    reduce = {**REDUCE, **told}
    play(replace(SERVED, workers=5, servers=2, racks=(0, 0, 0, 1, 1), reduce=reduce), tmp_path)


def test_a_gradient_that_is_lost_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(rank: int, how: Aggregation) -> object:
        part = push(rank, how)
        forgotten = tuple(replace(one, adds=False) for one in part.receives)
        return replace(part, receives=forgotten)

    monkeypatch.setattr("workloads.collectives.aggregation.push", forgetful)
    for told in ({}, {"on_hosts": True}):
        reduce = {**REDUCE, **told}
        plan = replace(SERVED, workers=5, servers=2, racks=(0, 0, 0, 1, 1), reduce=reduce)
        with pytest.raises(ArithmeticError, match="the all-reduce gave"):
            play(plan, tmp_path)


# ---- at the door

FILE = """
name: racks
topology: {kind: leaf-spine, hosts: 12, leaves: 3, spines: 2, rate: 1 Gbit/s, delay: 1 us, queue: 99 packets}
duration: 1 s
training:
  - {name: job, profile: resnet50-thesis, model: 1 MB, %s}
policies: [fifo]
seeds: [0]
"""  # noqa: E501
SERVERS = "aggregation: parameter-server, workers: 8, servers: 2, servers_on: racks-spread, "


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (SERVERS + "reduce: {by: tree, degree: 1}", "reduce.degree: found 1; it must be a whole"),
        (SERVERS + "reduce: {by: rack, degree: 3}", "reduce.degree: found beside by: rack"),
        (
            SERVERS + "reduce: {by: rack, aggregator: moon}",
            "reduce.aggregator: found 'moon', an unknown aggregator",
        ),
        (
            SERVERS.replace("workers: 8", "workers: [h1, h2, h3, h4]")
            + "reduce: {by: rack, aggregator: host}",
            "reduce.aggregator: found host, but a rack has no host without a worker",
        ),
        (
            SERVERS.replace("workers: 8", "workers: 10") + "reduce: {by: rack, aggregator: host}",
            "training.0.servers: found 2, but the workers leave 0 hosts",
        ),
        (SERVERS + "reduce: star", "reduce.by: found 'star', an unknown way to aggregate"),
        (SERVERS + "reduce: rack, stale: 1", "reduce: found in a job whose workers do not wait"),
        (SERVERS + "reduce: rack, transfer: p3", "transfer: found beside reduce"),
        ("reduce: rack", "reduce: found beside aggregation: ring"),
        ("aggregation: hierarchical-ring, workers: 5", "hierarchical-ring needs equally many"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(tmp_path: Path, said: str, line: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE % said)
    with pytest.raises(BadInput) as caught:
        load(path)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_one_aggregator_for_a_single_rack_is_allowed_and_said(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE % SERVERS.replace("8", "4") + "")
    assert load(path).notes == []
    path.write_text(FILE % (SERVERS.replace("8", "4") + "reduce: rack"))
    assert load(path).notes == ["job job: all workers are in one rack: h1 sums for all of them"]
    path.write_text(FILE % (SERVERS.replace("8", "3") + "reduce: {by: rack, aggregator: host}"))
    assert load(path).notes == ["job job: all workers are in one rack: h4 sums for all of them"]


@pytest.mark.parametrize(
    ("said", "workers", "servers", "summing"),
    [
        ("workers: 8", "h1 h2 h3 h5 h6 h7 h9 h10", "h11", "h4 h8 h12"),
        ("workers: 3", "h1 h2 h3", "h5", "h4"),
        ("workers: 4, workers_on: spread", "h1 h5 h9 h2", "h3", "h4 h8 h12"),
        ("workers: all", "h2 h3 h5 h6 h7 h9 h10 h11", "h1", "h4 h8 h12"),
        ("workers: [h9, h12, h1]", "h9 h12 h1", "h2", "h11 h4"),
    ],
)
def test_a_host_of_each_rack_with_workers_is_set_aside(
    tmp_path: Path, said: str, workers: str, servers: str, summing: str
) -> None:
    path = tmp_path / "file.yaml"
    job = SERVERS.replace("workers: 8", said).replace("servers: 2", "servers: 1")
    path.write_text(FILE % (job + "reduce: {by: rack, aggregator: host}"))
    for _ in range(2):  # the second time as it was resolved
        experiment = load(path)
        [one] = experiment.training
        assert (" ".join(one.host_names), " ".join(one.server_names)) == (workers, servers)
        assert " ".join(one.summing_names) == summing
        path.write_text(experiment.to_yaml())


# ---- in the simulation

RATE_BPS, MODEL_BYTE, FRAME, PAYLOAD = 10**9, 20_000_000, 1538, 1448
UNIT_NS = MODEL_BYTE * 8e9 / RATE_BPS * FRAME / PAYLOAD  # a model over a host's link
SIMULATED = """
name: simulated
topology: {kind: leaf-spine, hosts: 24, leaves: 6, spines: 4, rate: 1 Gbit/s, delay: 1 us, queue: 1000 packets}
duration: 20 s
training:
  - {name: job, profile: resnet50-thesis, model: 20 MB, iteration: 10 ms, fusion: 1 GB, steps: 1,
     aggregation: parameter-server, workers: 16, servers: 2, servers_on: racks-spread, %s}
policies: [fifo]
seeds: [0]
"""  # noqa: E501


def simulated(folder: Path, said: str, queue: str = "1000") -> list[list[int]]:
    """(worker, ns from the gradient's end to the model's) of one exchange."""
    path = folder / "file.yaml"
    path.write_text((SIMULATED % said).replace("queue: 1000", f"queue: {queue}"))
    run, *_ = in_turns(load(path), "test00")
    records = Records()
    setting = fluid.settle(run.experiment, print, run.run_id)
    fluid.perform(run, setting, records, lambda time_ns: None)
    return [[row[1], row[10] - row[8]] for row in records.tables["transfers"]]


@pytest.mark.parametrize(
    ("said", "units"),
    [
        ("reduce: {by: rack, chunk: 1 MB, multicast: false}", 3 / 2 + 4 / 2 + 16 / 2),
        ("reduce: {by: rack, chunk: 1 MB}", 3 / 2 + 4 / 2 + 3),
        ("reduce: {by: tree, chunk: 200 kB}", 2 / 2 + 4 / 2 + 2),
        (
            "workers_on: spread, reduce: {by: rack, aggregator: host, chunk: 1 MB}",
            3 / 2 + 6 / 2 + 3,
        ),
    ],
)
def test_an_exchange_takes_what_arithmetic_says(tmp_path: Path, said: str, units: float) -> None:
    """A push, then a pull that its slowest link decides on.

    The second of two servers gets its half when racks have summed the first: after half of the 3
    that arrive at a rack's first worker (2 in a tree). Half a model then comes from each rack.
    """
    took = [ns for _, ns in simulated(tmp_path, said)]
    assert len(took) == 16
    model = 0.982  # of what the profile is called is there
    assert max(took) / (UNIT_NS * model) == pytest.approx(units, rel=0.15)  # and TCP


@pytest.mark.parametrize(
    ("said", "queue"), [("reduce: {by: tree, chunk: 50 kB}", "1000"), ("reduce: rack", "1000000")]
)
def test_compiled_steps_are_those_that_are_played_message_by_message(
    tmp_path: Path, said: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a stream has more to send than it has room for.

    Compiled code sends fractions of bytes: so where queues overflow, others lose packets.
    """
    compiled = simulated(tmp_path, said, queue)
    monkeypatch.setattr(JobStreams, "by_message", True)
    played_out = simulated(tmp_path, said, queue)
    assert [worker for worker, _ in compiled] == [worker for worker, _ in played_out]
    for (_, one_ns), (_, other_ns) in zip(compiled, played_out, strict=True):
        assert one_ns == pytest.approx(other_ns, rel=1e-3)
