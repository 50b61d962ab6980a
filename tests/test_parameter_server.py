"""The parameter-server state machines and placements, without a network."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cluster.placements import PLACEMENTS, place
from tests.toy_world import ToyNetwork
from workloads.collectives.parameter_server import shards
from workloads.compute import group_by_group
from workloads.job_plan import JobPlan
from workloads.profiles import Layer
from workloads.served import ServedWorker, pushes
from workloads.server import REQUEST_BYTE, Gate
from workloads.world import Message

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


def plan(costs: Sequence[Layer] = LAYERS, **changes: Any) -> JobPlan:
    usual = JobPlan(
        name="job", aggregation="parameter-server", workers=1, servers=1, layers=tuple(costs),
        fusion_byte=100, barrier=True, start_ns=0, steps=None, check=False,
        bands=("all",), band="all",
    )  # fmt: skip
    return replace(usual, **changes)


@given(layers, st.integers(1, 6), st.integers(1, 5000))
def test_an_iteration_pushes_every_shard_once(
    costs: list[Layer], servers: int, fusion_byte: int
) -> None:
    job = plan(costs, servers=servers, fusion_byte=fusion_byte)
    pushed = Counter[int]()
    for stretch in group_by_group(costs, fusion_byte)[1:]:
        for server, byte in pushes(job, stretch):
            pushed[server] += byte
    assert [pushed[1 + shard] for shard in range(servers)] == [n for _, n in job.shards]


@given(layers, st.integers(1, 6), st.integers(1, 5000), st.data())
def test_a_smaller_gradient_is_pushed_whole_and_each_layer_by_its_size(
    costs: list[Layer], servers: int, fusion_byte: int, data: st.DataObject
) -> None:
    model_byte = sum(layer.bytes for layer in costs)
    gradient_byte = data.draw(st.integers(4 * servers, max(4 * servers, model_byte)))
    job = plan(costs, servers=servers, fusion_byte=fusion_byte, gradient_byte=gradient_byte)
    pushed = Counter[int]()
    for stretch in group_by_group(costs, fusion_byte)[1:]:
        pushed.update(dict(pushes(job, stretch)))
    assert [pushed[1 + shard] for shard in range(servers)] == [n for _, n in job.gradient_shards]
    assert sum(pushed.values()) == gradient_byte
    for layer, byte in zip(costs, job.gradient_bytes, strict=True):
        assert abs(byte - layer.bytes * gradient_byte / model_byte) < 1


def test_a_smaller_gradient_makes_a_step_shorter_by_what_is_not_pushed() -> None:
    waits_ns = {}
    for byte in (None, 60, 30):
        network = ToyNetwork(plan(gradient_byte=byte, steps=1))
        network.at(0, network.ranks[0].begin)  # type: ignore[union-attr]
        network.run()
        [waits_ns[byte]] = [row[-1] for row in network.rows if row[0] == "iterations"]
        assert network.carried[0, 1] == REQUEST_BYTE + (byte or 60)
        assert network.carried[1, 0] == 2 * 60
    assert waits_ns == {None: 120, 60: 120, 30: 90}


def test_a_group_that_lies_on_two_servers_goes_to_both() -> None:
    [_, group] = group_by_group(LAYERS, fusion_byte=100)
    assert pushes(plan(servers=2), group) == [(1, 32), (2, 28)]


# ---- a worker


class Heard:
    """A world that does nothing but listen."""

    def __init__(self) -> None:
        self.time_ns = 0
        self.sent: list[tuple[int, int]] = []
        self.due: list[tuple[int, Callable[[], None]]] = []

    def now_ns(self) -> int:
        return self.time_ns

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        self.due.append((time_ns, callback))

    def send(self, to: int, byte: int, **_: object) -> None:
        self.sent.append((to, byte))

    def compute(self) -> None:
        """Let the worker compute until it waits."""
        while self.due:
            self.time_ns, callback = self.due.pop(0)
            callback()


class Rows:
    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def write(self, table: str, *values: Any) -> None:
        self.rows.append((table, *values))

    def iterations(self) -> list[tuple[Any, ...]]:
        """(iteration, start, end, compute, wait)"""
        return [row[3:] for row in self.rows if row[0] == "iterations"]


def worker(**changes: Any) -> tuple[ServedWorker, Heard, Rows]:
    world, rows = Heard(), Rows()
    return ServedWorker(plan(**changes), 0, world, rows), world, rows  # type: ignore[arg-type]


def model(made: ServedWorker, world: Heard, server: int, time_ns: int) -> None:
    world.time_ns = time_ns
    made.message_arrived(Message(1 + server, 60))


def test_a_worker_asks_every_server_and_computes_when_the_last_part_is_there() -> None:
    made, world, _ = worker(servers=2)
    made.begin()
    assert world.sent == [(1, REQUEST_BYTE), (2, REQUEST_BYTE)]
    model(made, world, 1, 10)
    assert not world.due
    model(made, world, 0, 12)
    assert [time_ns for time_ns, _ in world.due] == [12 + 5 + 6 + 4]
    world.sent.clear()
    world.compute()
    assert sum(byte for _, byte in world.sent) == 60


def test_an_iteration_lasts_from_model_to_model() -> None:
    made, world, rows = worker()
    made.begin()
    model(made, world, 0, 100)
    world.compute()
    model(made, world, 0, 250)
    assert rows.iterations() == [(0, 100, 250, COMPUTE_NS, 150 - COMPUTE_NS)]


def test_a_part_that_comes_back_during_the_backward_pass_starts_nothing() -> None:
    made, world, rows = worker(servers=2, fusion_byte=1)
    made.begin()
    for server in (0, 1):
        model(made, world, server, 0)
    for _ in range(2):  # forward, and the last layer
        world.time_ns, callback = world.due.pop(0)
        callback()
    assert world.sent[2:] == [(1, 2), (2, 28)]
    model(made, world, 1, 20)
    world.compute()
    assert not rows.iterations()
    model(made, world, 0, 60)
    assert [end for _, _, end, *_ in rows.iterations()] == [60]


def test_what_was_pushed_is_written_down_when_its_need_is_known() -> None:
    made, world, rows = worker(fusion_byte=30)
    made.begin()
    for time_ns in (0, 100):
        model(made, world, 0, time_ns)
        world.compute()
    transfers = [row[3:] for row in rows.rows if row[0] == "transfers"]
    ready = 15 + 9
    assert transfers == [
        (0, 0, 2, 1, 30, 0, ready, ready, 100, COMPUTE_NS),
        (0, 1, 0, 2, 30, 0, COMPUTE_NS, COMPUTE_NS, 100, COMPUTE_NS),
    ]


# ---- a server


def test_a_synchronous_server_answers_all_when_the_last_has_come() -> None:
    server = Gate(workers=3, stale=0)
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
    server = Gate(workers=3, stale=None)
    assert [server.arrived(0, time_ns) for time_ns in range(4)] == [[0]] * 4


def test_a_worker_too_far_ahead_waits_for_the_slowest() -> None:
    server = Gate(workers=2, stale=2)
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
    server = Gate(workers, stale)
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
    """A whole job on links that are numbers."""
    job = plan(costs, workers=workers, servers=servers, steps=steps, staleness=stale)
    network = ToyNetwork(job, rate=3.0)
    for rank in network.ranks[:workers]:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    made = Counter(row[2] for row in network.rows if row[0] == "iterations")
    assert made == dict.fromkeys(range(workers), steps)
    passed = Counter((row[2], row[3]) for row in network.rows if row[0] == "barriers")
    every = [(shard, step) for shard in range(servers) for step in range(steps)]
    assert passed == dict.fromkeys(every, workers)
    total = sum(layer.bytes for layer in costs)
    up = sum(byte for (source, _), byte in network.carried.items() if source < workers)
    down = sum(byte for (source, _), byte in network.carried.items() if source >= workers)
    assert up == workers * (steps * total + servers * REQUEST_BYTE)
    assert down == workers * (steps + 1) * total


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
