"""Transfer policies and the ranks that follow them, on links that are numbers."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.transfer import (
    PartQueue,
    TensorPart,
    Work,
    cut_layers,
    groups_from_first,
    groups_from_last,
    layers_at_servers,
    slices,
    transfer_policies,
)
from policies.transfer import tac as tac_rule
from policies.transfer.needs import Operation, joint_cost, sole_time
from policies.transfer.parts import ARRAY_BOUND_BYTE
from tests.toy_world import ToyNetwork
from workloads.job_plan import JobPlan
from workloads.profiles import Layer
from workloads.server import REQUEST_BYTE

UNIT = 1000  # ns, and bytes on a link that carries one a nanosecond
# ByteScheduler's example: passes of two units, transfers of three, six and three.
EXAMPLE = tuple(Layer(units * UNIT, 2 * UNIT, 2 * UNIT) for units in (3, 6, 3))

sizes = st.lists(st.integers(1, 60), min_size=1, max_size=8)
policies = st.sampled_from(sorted(transfer_policies()))


def job(policy: str, servers: int = 1, **changes: Any) -> JobPlan:
    options = changes.pop("options", {})
    usual = JobPlan(
        name="job", aggregation="parameter-server" if servers else "ring", workers=1,
        servers=servers, layers=EXAMPLE, fusion_byte=1, barrier=False, start_ns=0, steps=8,
        check=False, bands=("all",), band="all", parted=bool(servers),
        transfer={"policy": policy, "options": options},
    )  # fmt: skip
    return replace(usual, **changes)


def played(plan: JobPlan, rate: float = 1.0) -> ToyNetwork:
    network = ToyNetwork(plan, rate=rate)
    for rank in network.ranks[: plan.workers]:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    for rank in network.ranks[: plan.workers]:
        rank.write_transfers()  # type: ignore[union-attr]
    return network


def lengths(network: ToyNetwork, worker: int = 0) -> list[int]:
    """Of its iterations, from start to start."""
    starts = [int(row[4]) for row in network.rows if row[:3] == ("iterations", "job", worker)]
    return [after - before for before, after in pairwise(starts)]


# ---- ByteScheduler's example, exactly


@pytest.mark.parametrize(
    ("policy", "options", "units"),
    [
        ("fifo", {}, 26),
        ("fifo", {"partition": UNIT}, 21),
        ("layer", {}, 26),
        ("p3", {"partition": UNIT}, 18),
        ("layer", {"partition": UNIT}, 18),
        ("bytescheduler", {"partition": UNIT, "credit": 2 * UNIT}, 18),
    ],
)
def test_the_example_of_bytescheduler_takes_what_it_must(
    policy: str, options: dict[str, int], units: int
) -> None:
    made = lengths(played(job(policy, options=options)))
    assert made[2:] == [units * UNIT] * (len(made) - 2)


def test_a_part_at_a_time_from_push_to_answer_uses_one_link_at_a_time() -> None:
    """Credit of one part: nothing is pushed while something is on its way back."""
    network = played(job("bytescheduler", options={"partition": UNIT, "credit": 1}))
    # 12 parts there and back one after another, from the end of the last layer's pass on; layer 0
    # is back after 2 parts each of the others and its own.
    assert lengths(network)[-1] > 21 * UNIT


# ---- parts


@given(sizes, st.integers(1, 70))
def test_parts_cover_every_layer_evenly(layer_bytes: list[int], partition_byte: int) -> None:
    parts = cut_layers(layer_bytes, partition_byte)
    assert [part.number for part in parts] == list(range(len(parts)))
    for layer, size in enumerate(layer_bytes):
        own = [part.byte for part in parts if part.layers == (layer,)]
        assert sum(own) == size
        assert len(own) == -(-size // partition_byte)
        assert max(own) <= partition_byte
        assert max(own) - min(own) <= 1


@given(sizes, st.integers(1, 300))
def test_fixed_groups_are_as_large_as_fits_from_either_end(
    layer_bytes: list[int], fusion_byte: int
) -> None:
    for groups in (
        groups_from_first(layer_bytes, fusion_byte),
        groups_from_last(layer_bytes, fusion_byte)[::-1],
    ):
        layers = [layer for group in groups for layer in group.layers]
        assert layers == list(range(len(layer_bytes)))
        for group in groups:
            assert group.byte == sum(layer_bytes[layer] for layer in group.layers)
            assert len(group.layers) == 1 or group.byte <= fusion_byte
    for group, above in pairwise(groups_from_first(layer_bytes, fusion_byte)):
        assert group.byte + layer_bytes[above.layers[0]] > fusion_byte
    for group, below in pairwise(groups_from_last(layer_bytes, fusion_byte)):
        assert group.byte + layer_bytes[below.layers[-1]] > fusion_byte


def test_servers_hold_slices_in_turn_and_large_arrays_are_split_as_in_mxnet() -> None:
    parts = cut_layers([300, 100], 100)
    assert [part.server for part in slices(parts, 3)] == [0, 1, 2, 0]
    large, small = layers_at_servers(cut_layers([ARRAY_BOUND_BYTE, 400], 10**9), 4)[:4], 400
    assert [(part.server, part.byte) for part in large] == [(at, 1_000_000) for at in range(4)]
    [lone] = layers_at_servers(cut_layers([small], 10**9), 4)
    assert (lone.server, lone.byte) == (0, small)


# ---- the queue


@given(
    st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=60),
    st.integers(1, 200),
)
def test_credit_is_exceeded_by_less_than_one_part(
    steps: list[tuple[int, bool]], credit_byte: int
) -> None:
    queue = PartQueue(credit_byte)
    flying: list[TensorPart] = []
    for number, (byte, done) in enumerate(steps):
        queue.add([TensorPart(number, (0,), byte)], None)
        if done and flying:
            queue.give_back([flying.pop()])
        while (part := queue.take()) is not None:
            assert sum(one.byte for one in flying) < credit_byte
            flying.append(part)
        assert queue.flying_byte == sum(one.byte for one in flying)


def test_what_ranks_behind_does_not_hold_back_who_overtakes() -> None:
    first, second, third = cut_layers([10, 10, 10], 10**9)
    for overtakes, taken in ((False, None), (True, first)):
        queue = PartQueue(10, overtakes=overtakes)
        queue.add([second], [0, 1, 2])
        assert queue.take() == second
        queue.add([first, third], [0, 1, 2])
        assert queue.take() == taken
        assert queue.take() is None


def test_the_best_goes_first_and_of_equals_the_first_part() -> None:
    queue = PartQueue(10**9)
    parts = cut_layers([20, 20], 10)
    queue.add([parts[3], parts[2]], [0, 1])
    queue.add([parts[1], parts[0]], [0, 1])
    taken = [queue.take() for _ in range(4)]
    assert [part.number for part in taken if part] == [0, 1, 2, 3]


# ---- TIC and TAC


def test_what_is_needed_with_others_and_what_alone() -> None:
    """Three transfers: one operation needs the first, one the first and third, one all."""
    operations = [Operation(0b001, 5.0), Operation(0b101, 7.0), Operation(0b111, 11.0)]
    assert joint_cost(operations, [1.0, 2.0, 4.0], 0b111) == [5.0, 7.0, 5.0]
    assert sole_time(operations, 3, 0b111) == [5.0, 0.0, 0.0]
    assert sole_time(operations, 3, 0b110) == [0.0, 0.0, 7.0]


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 900)), min_size=1, max_size=12))
def test_a_chain_of_layers_is_read_from_its_beginning(layers: list[tuple[int, int]]) -> None:
    work = Work(tuple(size for size, _ in layers), tuple(time for _, time in layers), 10**9)
    tic = transfer_policies()["tic"].ranked(work, 0, 0)
    assert tic == tuple(range(len(layers)))
    if all(time for _, time in layers):
        assert tac_rule.order(work) == tuple(range(len(layers)))


def test_random_orders_differ_by_worker_and_iteration_or_not_at_all() -> None:
    work = Work((1,) * 20, (1,) * 20, 10**9, seed=3)
    each, fixed = (transfer_policies()[name] for name in ("random", "random-fixed"))
    keys = [(0, 0), (0, 1), (1, 0)]
    assert len({tuple(each.ranked(work, *key) or ()) for key in keys}) == 3
    assert len({tuple(fixed.ranked(work, *key) or ()) for key in keys}) == 1
    assert each.ranked(work, 1, 0) == each.ranked(work, 1, 0)
    assert fixed.ranked(replace(work, seed=4), 0, 0) != fixed.ranked(work, 0, 0)


# ---- ranks


@given(
    policies, sizes, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.booleans(),
    st.integers(5, 70), st.integers(1, 90), st.sampled_from([None, 10**9]),
)  # fmt: skip
def test_servers_and_workers_exchange_every_part_once_whatever_the_policy(
    policy: str, layer_bytes: list[int], workers: int, servers: int, stale: int, barrier: bool,
    partition_byte: int, credit_byte: int, update: int | None,
) -> None:  # fmt: skip
    layers = tuple(Layer(size, 100, 200) for size in layer_bytes)
    options = {"partition": partition_byte, "credit": credit_byte}
    plan = job(
        policy, servers, options=options, workers=workers, layers=layers, steps=3,
        staleness=stale, barrier=barrier, update_byte_s=update,
    )  # fmt: skip
    network = played(plan, rate=3.0)
    made = Counter(row[2] for row in network.rows if row[0] == "iterations")
    assert made == dict.fromkeys(range(workers), 3)
    up = sum(byte for (source, _), byte in network.carried.items() if source < workers)
    asked = 3 * workers * servers * REQUEST_BYTE if plan.asks else 0
    assert up == 3 * workers * sum(layer_bytes) + asked
    assert sum(network.carried.values()) == 2 * up - asked
    held = Counter(part.server for part in plan.transfer_parts)
    passed = Counter(row[2] for row in network.rows if row[0] == "barriers")
    assert passed == dict.fromkeys(held, 3 * workers)


@given(
    policies, sizes, st.integers(2, 4), st.booleans(), st.integers(5, 70), st.integers(1, 90),
    st.integers(1, 200), st.sampled_from(["ready", "from-first", "from-last"]),
)  # fmt: skip
def test_a_ring_exchanges_every_byte_once_whatever_the_policy(
    policy: str, layer_bytes: list[int], workers: int, barrier: bool, partition_byte: int,
    credit_byte: int, fusion_byte: int, groups: str,
) -> None:  # fmt: skip
    layers = tuple(Layer(size, 100, 200) for size in layer_bytes)
    options = {"partition": partition_byte, "credit": credit_byte}
    plan = job(
        policy, 0, options=options, workers=workers, layers=layers, steps=3, barrier=barrier,
        groups=groups, fusion_byte=fusion_byte,
    )  # fmt: skip
    network = played(plan, rate=3.0)
    made = Counter(row[2] for row in network.rows if row[0] == "iterations")
    assert made == dict.fromkeys(range(workers), 3)
    for worker in range(workers):
        rows = [row for row in network.rows if row[0] == "transfers" and row[2] == worker]
        assert sum(int(row[7]) for row in rows) == 3 * sum(layer_bytes)


def test_a_gate_holds_answers_back_until_those_before_them_have_gone() -> None:
    """Whatever is updated first, layer 0 leaves first: the last of the pushes."""
    network = played(job("tic"))
    ends = {
        (int(row[3]), int(row[5])): int(row[11]) for row in network.rows if row[0] == "transfers"
    }
    for iteration in range(6):
        assert ends[iteration, 0] < ends[iteration, 1] < ends[iteration, 2]


def test_an_update_takes_its_time_one_after_another() -> None:
    """Layers of 3, 6 and 3 units, updated at one unit in a unit of time, by FIFO order."""
    plain, slow = (lengths(played(job("fifo", update_byte_s=rate)))[-1] for rate in (None, 10**9))
    # Pushes end at 11, 17, 20; updates at 14, 23, 26; answers at 17, 29, 32.
    assert (plain, slow) == (26 * UNIT, 32 * UNIT)
