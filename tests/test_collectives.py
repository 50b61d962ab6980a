"""Collectives are lists of steps: checked by arithmetic, and with real numbers over sockets."""

import socket
import time
from collections import Counter, defaultdict, deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.link import link_policies
from testbed.fluid.simulation import Simulation
from testbed.fluid.step_tables import StepList
from testbed.fluid.ways import Way
from tests.toy_world import ToyNetwork
from topologies import Cable, tor
from workloads import collectives
from workloads.collectives import Collective, Part, cut, parameter_server
from workloads.counting import Numbers, check_sum, sample_numbers
from workloads.job_plan import JobPlan
from workloads.loop import Clock, Loop
from workloads.play import Play
from workloads.profiles import Layer
from workloads.schedule import Schedule
from workloads.socket_world import SocketWorld

ALL = collectives.available()
REDUCING = collectives.reducing()


def group_sizes(collective: Collective, most: int = 9) -> list[int]:
    return [ranks for ranks in range(2, most) if collective.refuses(ranks) is None]


def parts_of(collective: Collective, ranks: int) -> list[Part]:
    return [collective.part(rank, ranks) for rank in range(ranks)]


def played(parts: list[Part], blocks: int, vectors: list[Numbers], choose: object) -> Counter[int]:
    """All ranks' vectors after the collective, messages travelling in any order that TCP allows.

    Returns the bytes that each rank has sent.
    """
    wires: dict[tuple[int, int], deque[memoryview | None]] = defaultdict(deque)
    sent = Counter[int]()
    plays = []
    for rank, part in enumerate(parts):

        def post(to: int, byte: int, content: memoryview | None, rank: int = rank) -> None:
            wires[rank, to].append(content)
            sent[rank] += byte

        vector = vectors[rank]
        plays.append(Play(part, blocks, vector.nbytes, post, vector))
    for play in plays:
        play.begin()
    while waiting := sorted(wire for wire, queue in wires.items() if queue):
        source, to = choose(waiting)  # type: ignore[operator]
        plays[to].arrived(source, wires[source, to].popleft())
    assert all(play.done for play in plays)
    assert all(play.left_byte == 0 for play in plays)
    return sent


@pytest.mark.parametrize("name", REDUCING)
@given(data=st.data(), count=st.integers(1, 300))
def test_every_rank_ends_with_every_contribution_exactly_once(
    name: str, data: st.DataObject, count: int
) -> None:
    ranks = data.draw(st.sampled_from(group_sizes(ALL[name])))
    vectors = [sample_numbers(count, rank + 1) for rank in range(ranks)]
    choose = data.draw(st.randoms(use_true_random=False)).choice
    played(parts_of(ALL[name], ranks), ALL[name].blocks(ranks), vectors, choose)
    for vector in vectors:
        check_sum(vector, ranks)


@pytest.mark.parametrize("name", REDUCING)
def test_a_rank_sends_what_an_all_reduce_must_and_no_more(name: str) -> None:
    for ranks in group_sizes(ALL[name]):
        vectors = [sample_numbers(840, rank + 1) for rank in range(ranks)]
        sent = played(parts_of(ALL[name], ranks), ALL[name].blocks(ranks), vectors, min)
        least = 2 * (ranks - 1) / ranks * 840 * 4
        assert all(byte == pytest.approx(least, rel=0.02) for byte in sent.values())


def test_reduce_scatter_leaves_a_block_of_the_sum_and_all_gather_spreads_them() -> None:
    ranks, count = 5, 100
    vectors = [sample_numbers(count, rank + 1) for rank in range(ranks)]
    played(parts_of(ALL["reduce-scatter"], ranks), ranks, vectors, max)
    spans = cut(count, ranks)
    total = sample_numbers(count, ranks * (ranks + 1) // 2)
    for rank, vector in enumerate(vectors):
        start, length = spans[(rank + 1) % ranks]
        np.testing.assert_array_equal(vector[start : start + length], total[start : start + length])
    played(parts_of(ALL["all-gather"], ranks), ranks, vectors, min)
    for vector in vectors:
        check_sum(vector, ranks)


def test_all_to_all_transposes() -> None:
    ranks = 4
    vectors = [np.array([10 * rank + to for to in range(ranks)], np.float32) for rank in range(4)]
    played(parts_of(ALL["all-to-all"], ranks), ranks, vectors, max)
    assert [vector.tolist() for vector in vectors] == [
        [10 * source + rank for source in range(ranks)] for rank in range(ranks)
    ]


def test_send_passes_a_vector_down_the_line() -> None:
    vectors = [sample_numbers(10, rank + 1) for rank in range(3)]
    played(parts_of(ALL["send"], 3), 1, vectors, min)
    assert all((vector == sample_numbers(10, 1)).all() for vector in vectors)


@given(st.integers(1, 6), st.integers(1, 4))
def test_push_adds_every_gradient_up_and_pull_brings_the_model_back(
    workers: int, servers: int
) -> None:
    ranks, count = workers + servers, 40
    vectors = [sample_numbers(count, rank + 1) for rank in range(workers)]
    vectors += [np.zeros(count, np.float32) for _ in range(servers)]
    for step in (parameter_server.push, parameter_server.pull):
        parts = [step(rank, workers, servers) for rank in range(ranks)]
        played(parts, servers, vectors, min)
    for vector in vectors[:workers]:
        check_sum(vector, workers)


@pytest.mark.parametrize("name", list(ALL))
def test_what_one_sends_another_receives_in_the_same_order(name: str) -> None:
    for ranks in group_sizes(ALL[name], 12):
        parts = parts_of(ALL[name], ranks)
        for rank, part in enumerate(parts):
            for other in range(ranks):
                sent = [one.blocks[1] for one in part.sends if one.to == other]
                got = [one.blocks[1] for one in parts[other].receives if one.source == rank]
                assert sent == got
        edges = [(rank, one.to) for rank, part in enumerate(parts) for one in part.sends]
        assert ALL[name].edges(ranks) == list(dict.fromkeys(edges))


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_a_cut_covers_everything_once_in_lengths_that_differ_by_one_at_most(
    total: int, parts: int
) -> None:
    made = cut(total, parts)
    assert [start for start, _ in made] == [sum(n for _, n in made[:at]) for at in range(parts)]
    assert sum(length for _, length in made) == total
    assert max(length for _, length in made) - min(length for _, length in made) <= 1


# ---- in the toy world

PLAN = JobPlan(
    name="job", aggregation="ring", workers=4, layers=(Layer(400, 5, 7), Layer(800, 6, 8)),
    fusion_byte=1000, barrier=True, start_ns=0, steps=3, check=False,
    bands=("all",), band="all",
)  # fmt: skip


@pytest.mark.parametrize("name", REDUCING)
def test_a_job_trains_on_links_that_are_numbers(name: str) -> None:
    network = ToyNetwork(replace(PLAN, aggregation=name))
    for rank in network.ranks:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    made = Counter(row[2] for row in network.rows if row[0] == "iterations")
    assert made == dict.fromkeys(range(4), 3)
    sent = Counter[int]()
    for (source, _), byte in network.carried.items():
        sent[source] += byte
    assert sent == dict.fromkeys(range(4), 3 * 2 * 3 * 1200 // 4)


def test_a_ring_of_equal_links_takes_its_2_n_minus_1_steps() -> None:
    """One transfer of 1,200 bytes in 6 steps of 300, a byte a nanosecond."""
    alone = replace(PLAN, layers=(Layer(1200, 5, 7),), steps=1)
    network = ToyNetwork(alone)
    for rank in network.ranks:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    ends = [row[5] for row in network.rows if row[0] == "iterations"]
    assert ends == [12 + 6 * 300] * 4


# ---- in the simulation


def simulated_ends(
    parts: list[Part] | None, ranks: int, sizes: list[int], starts_ns: list[int]
) -> list[list[int]]:
    """When each rank has done each all-reduce; by steps, or the short way of rings (None)."""
    nothing = np.zeros(0, dtype=np.int64)
    flows = Schedule(*[nothing] * 6)
    edges = ALL["ring"].edges(ranks) if parts is None else list(
        dict.fromkeys((rank, one.to) for rank, part in enumerate(parts) for one in part.sends)
    )  # fmt: skip
    streams = {edge: at for at, edge in enumerate(edges)}
    rack = tor.build(ranks, Cable(rate_bps=10**9, delay_ns=10_000, queue_packets=1000))
    lists = [] if parts is None else [StepList(parts, ranks, streams)]
    ways = [Way(a, b, 7000, 0) for a, b in edges]
    simulation = Simulation(rack, link_policies()["fifo"], flows, [], ways, step_lists=lists)
    if parts is None:
        simulation.make_ring(list(streams.values()))
    ends: list[list[int]] = [[] for _ in range(ranks)]

    def begin(rank: int) -> None:
        byte = sizes[len(ends[rank])]
        if parts is None:
            stream = streams[rank, (rank + 1) % ranks]
            simulation.on_ring_done[stream] = lambda: done(rank)
            simulation.begin_ring(stream, byte / ranks)
        else:
            player = simulation.players[0][rank]
            simulation.on_steps_done[player] = lambda: done(rank)
            simulation.begin_steps(player, byte)

    def done(rank: int) -> None:
        ends[rank].append(simulation.now_ns)
        if len(ends[rank]) < len(sizes):
            begin(rank)

    for rank in range(ranks):
        simulation.at(starts_ns[rank], lambda rank=rank: begin(rank))
    simulation.run(10**10)
    return ends


@given(
    st.integers(2, 6),
    st.lists(st.integers(1000, 10**6), min_size=1, max_size=3),
    st.lists(st.integers(0, 10**6), min_size=6, max_size=6),
)
def test_the_short_way_of_rings_is_that_of_any_list_of_steps(
    ranks: int, sizes: list[int], starts_ns: list[int]
) -> None:
    short = simulated_ends(None, ranks, sizes, starts_ns)
    generic = simulated_ends(parts_of(ALL["ring"], ranks), ranks, sizes, starts_ns)
    assert all(len(ends) == len(sizes) for ends in short)
    assert generic == short


# ---- over sockets, with real numbers


@pytest.mark.parametrize("name", REDUCING)
@pytest.mark.parametrize("byte", [4, 400, 3_000_001])
def test_real_numbers_are_summed_over_sockets(name: str, byte: int) -> None:
    plan = replace(PLAN, aggregation=name, workers=4, check=True)
    loop = Loop(Clock(time.monotonic_ns()))
    pairs = {pair: socket.socketpair() for pair in plan.data_pairs}
    left = Counter[int]()

    def fail(why: str) -> None:
        raise AssertionError(why)

    worlds = []
    for rank in range(plan.workers):
        data = {b: ours for (a, b), (ours, _) in pairs.items() if a == rank}
        data |= {a: theirs for (a, b), (_, theirs) in pairs.items() if b == rank}
        worlds.append(SocketWorld(plan, rank, loop, data, {}, fail))

    def done(rank: int, number: int) -> None:
        """The world has checked the sum; the next transfer follows at once, so ranks drift."""
        left[rank] += 1
        if number < 2:
            worlds[rank].play(number + 1, byte, lambda: done(rank, number + 1))
        elif len(left) == plan.workers and set(left.values()) == {3}:
            loop.stop()

    for rank, world in enumerate(worlds):
        loop.at(0, lambda rank=rank, world=world: world.play(0, byte, lambda: done(rank, 0)))
    loop.at(20_000_000_000, loop.stop)
    loop.run()
    assert left == dict.fromkeys(range(plan.workers), 3)
    for world in worlds:
        world.close()
