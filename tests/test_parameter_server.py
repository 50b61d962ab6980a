"""The parameter-server state machines and placements, without a network."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.placements import PLACEMENTS, place
from workloads.parameter_server import REQUEST_BYTE, Pupil, Push, Server, shards, stretches
from workloads.profiles import Layer

LAYERS = [Layer(10, 5, 7), Layer(20, 6, 8), Layer(30, 4, 9)]
COMPUTE_NS = 5 + 6 + 4 + 7 + 8 + 9
HOSTS = [f"h{number}" for number in range(1, 22)]

layers = st.lists(st.builds(Layer, *[st.integers(16, 1000)] * 3), min_size=1, max_size=10)


# ---- what is sent where


@given(st.integers(0, 10**9), st.integers(1, 50))
def test_shards_cover_the_model_evenly_and_cut_no_number_in_two(total: int, servers: int) -> None:
    parts = shards(total, servers)
    assert sum(length for _, length in parts) == total
    assert all(start % 4 == 0 for start, _ in parts)
    assert [start for start, _ in parts[1:]] == [start + length for start, length in parts[:-1]]
    lengths = [length for _, length in parts]
    assert max(lengths) - min(lengths) < 8


@given(layers, st.integers(1, 6), st.integers(1, 5000))
def test_an_iteration_pushes_every_shard_once_and_computes_every_layer_once(
    costs: list[Layer], servers: int, fusion_byte: int
) -> None:
    made = stretches(costs, servers, fusion_byte)
    total = sum(layer.bytes for layer in costs)
    pushed = Counter[int]()
    for stretch in made:
        for push in stretch.pushes:
            pushed[push.server] += push.bytes
    assert [pushed[server] for server in range(servers)] == [n for _, n in shards(total, servers)]
    compute_ns = sum(layer.forward_ns + layer.backward_ns for layer in costs)
    assert sum(stretch.length_ns for stretch in made) == compute_ns


def test_gradients_that_fit_into_the_fusion_buffer_are_pushed_together_from_the_back() -> None:
    _, *backward = stretches(LAYERS, 1, fusion_byte=30)
    assert [(one.first_layer, one.layers, one.bytes) for one in backward] == [
        (2, 1, 30),
        (0, 2, 30),
    ]
    assert backward[1].length_ns == 7 + 8


def test_a_group_that_lies_on_two_servers_goes_to_both() -> None:
    [_, group] = stretches(LAYERS, 2, fusion_byte=100)
    assert group.pushes == (Push(0, 32), Push(1, 28))


# ---- a worker


def computed(pupil: Pupil) -> list[Push]:
    pushes: list[Push] = []
    while pupil.running is not None:
        pushes += pupil.compute_done()
    return pushes


def test_a_worker_asks_every_server_and_computes_when_the_last_part_is_there() -> None:
    pupil = Pupil(LAYERS, servers=2, fusion_byte=100)
    assert pupil.start() == [Push(0, REQUEST_BYTE), Push(1, REQUEST_BYTE)]
    pupil.model_arrived(1, 10)
    assert pupil.running is None
    pupil.model_arrived(0, 12)
    assert pupil.running is not None
    assert pupil.running.start_ns == 12
    assert sum(push.bytes for push in computed(pupil)) == 60


def test_an_iteration_lasts_from_model_to_model() -> None:
    pupil = Pupil(LAYERS, servers=1, fusion_byte=100)
    pupil.start()
    pupil.model_arrived(0, 100)
    computed(pupil)
    pupil.model_arrived(0, 250)
    [done] = pupil.finished
    assert (done.iteration, done.start_ns, done.end_ns) == (0, 100, 250)
    assert (done.compute_ns, done.wait_ns) == (COMPUTE_NS, 150 - COMPUTE_NS)


def test_a_part_that_comes_back_during_the_backward_pass_starts_nothing() -> None:
    pupil = Pupil(LAYERS, servers=2, fusion_byte=1)
    pupil.start()
    for server in (0, 1):
        pupil.model_arrived(server, 0)
    pupil.compute_done()  # forward
    assert pupil.compute_done() == [Push(0, 2), Push(1, 28)]
    pupil.model_arrived(1, 20)
    assert pupil.running is not None
    computed(pupil)
    assert pupil.running is None
    pupil.model_arrived(0, 60)
    assert [done.end_ns for done in pupil.finished] == [60]


def test_a_worker_with_steps_stops_after_them() -> None:
    pupil = Pupil(LAYERS, servers=1, fusion_byte=100, steps=2)
    pupil.start()
    for time_ns in (0, 100, 200):
        assert not pupil.done
        pupil.model_arrived(0, time_ns)
        computed(pupil)
    assert pupil.done
    assert [done.iteration for done in pupil.finished] == [0, 1]
    assert pupil.running is None


# ---- a server


def test_a_synchronous_server_answers_all_when_the_last_has_come() -> None:
    server = Server(workers=3, shard_byte=60, stale=0)
    assert server.arrived(1, 0) == []
    assert server.arrived(0, 1) == []
    assert server.arrived(2, 2) == [1, 0, 2]
    assert server.passages == []  # the first models are no barrier
    server.arrived(2, 10)
    server.arrived(0, 15)
    assert server.arrived(1, 40) == [2, 0, 1]
    waits = {passage.worker: passage.leave_ns - passage.enter_ns for passage in server.passages}
    assert waits == {2: 30, 0: 25, 1: 0}
    assert {passage.iteration for passage in server.passages} == {0}


def test_an_asynchronous_server_answers_each_at_once() -> None:
    server = Server(workers=3, shard_byte=60, stale=None)
    assert [server.arrived(0, time_ns) for time_ns in range(4)] == [[0]] * 4


def test_a_worker_too_far_ahead_waits_for_the_slowest() -> None:
    server = Server(workers=2, shard_byte=60, stale=2)
    assert server.arrived(0, 0) == [0]  # it asks for the first model: step 0
    assert server.arrived(1, 1) == [1]
    assert server.arrived(0, 2) == [0]
    assert server.arrived(0, 3) == [0]
    assert server.arrived(0, 4) == []  # three steps ahead
    assert server.arrived(1, 5) == [0, 1]


@given(
    st.integers(1, 6),
    st.one_of(st.none(), st.integers(0, 4)),
    st.lists(st.integers(0, 5), max_size=200),
)
def test_nobody_gets_further_ahead_than_allowed_and_nobody_waits_for_ever(
    workers: int, stale: int | None, choices: list[int]
) -> None:
    server = Server(workers, 60, stale)
    steps = [-1] * workers
    free = list(range(workers))  # those with a model: they may push
    for now_ns, choice in enumerate(choices):
        assert free, "everybody waits"
        worker = free.pop(choice % len(free))
        steps[worker] += 1
        free += server.arrived(worker, now_ns)
        if stale is not None:
            assert all(steps[one] <= min(steps) + stale for one in free)
    entered = Counter((one.iteration, one.worker) for one in server.passages)
    assert all(times == 1 for times in entered.values())
    assert all(one.leave_ns >= one.enter_ns for one in server.passages)


@given(layers, st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 3))
def test_workers_and_servers_make_exactly_the_steps_asked_for(
    costs: list[Layer], workers: int, servers: int, steps: int, stale: int
) -> None:
    """A whole job on a network that takes no time."""
    parts = shards(sum(layer.bytes for layer in costs), servers)
    pupils = [Pupil(costs, servers, 100, steps) for _ in range(workers)]
    made = [Server(workers, length, stale) for _, length in parts]
    got = Counter[tuple[int, int]]()
    waiting = [(rank, push) for rank, pupil in enumerate(pupils) for push in pupil.start()]
    for now_ns in range(100_000):
        if not waiting:
            break
        rank, push = waiting.pop(0)
        server = made[push.server]
        got[rank, push.server] += push.bytes
        if got[rank, push.server] < server.due_byte(rank):
            continue
        got[rank, push.server] = 0
        for worker in server.arrived(rank, now_ns):
            pupils[worker].model_arrived(push.server, now_ns)
            waiting += [(worker, one) for one in computed(pupils[worker])]
    assert all(pupil.done and len(pupil.finished) == steps for pupil in pupils)
    assert not +got
    for server in made:
        passed = Counter(one.iteration for one in server.passages)
        assert passed == dict.fromkeys(range(steps), workers)


# ---- placements


@given(
    st.sampled_from(list(PLACEMENTS)), st.integers(1, 60), st.integers(1, 21), st.integers(1, 21)
)
def test_every_job_is_placed_and_its_servers_are_on_different_hosts(
    name: str, jobs: int, servers: int, hosts: int
) -> None:
    if servers > hosts:
        with pytest.raises(ValueError, match="different"):
            place(name, jobs, servers, HOSTS[:hosts])
        return
    made = place(name, jobs, servers, HOSTS[:hosts])
    assert len(made) == jobs
    assert all(len(set(own)) == servers for own in made)


def test_the_placements_of_21_jobs_go_from_all_on_one_host_to_one_each() -> None:
    shapes = {
        name: sorted(Counter(host for [host] in place(name, 21, 1, HOSTS)).values(), reverse=True)
        for name in PLACEMENTS
    }
    assert shapes == {
        "packed": [21],
        "two-uneven": [16, 5],
        "two-hosts": [11, 10],
        "three-hosts": [7, 7, 7],
        "four-hosts": [6, 5, 5, 5],
        "five-hosts": [5, 4, 4, 4, 4],
        "seven-hosts": [3] * 7,
        "spread": [1] * 21,
    }
