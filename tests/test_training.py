"""The training state machines and the ring, without a network."""

import socket

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.profiles import Layer
from workloads.ring import (
    NumberTransfer,
    RingTransfer,
    check_sum,
    sample_numbers,
    spans,
    steps,
)
from workloads.training import Coordinator, Trainee

LAYERS = [Layer(10, 5, 7), Layer(20, 6, 8), Layer(30, 4, 9)]
COMPUTE_NS = 5 + 6 + 4 + 7 + 8 + 9


def run_until_wait(trainee: Trainee) -> list[int]:
    """Compute until a gradient is missing; returns the layers that became ready, in order."""
    ready = []
    while trainee.running is not None:
        layer = trainee.compute_done()
        if layer is not None:
            ready.append(layer)
    return ready


def test_backward_pass_makes_gradients_ready_from_the_last_layer_to_the_first() -> None:
    trainee = Trainee(LAYERS, barrier=True)
    trainee.start(0)
    assert run_until_wait(trainee) == [2, 1, 0]


def test_with_a_barrier_the_next_pass_waits_for_every_gradient() -> None:
    trainee = Trainee(LAYERS, barrier=True)
    trainee.start(0)
    run_until_wait(trainee)
    trainee.gradients_arrived([0, 1], 100)
    assert trainee.running is None
    trainee.gradients_arrived([2], 120)
    assert trainee.running is not None
    [done] = trainee.finished
    assert (done.start_ns, done.end_ns, done.compute_ns) == (0, 120, COMPUTE_NS)
    assert done.wait_ns == 120 - COMPUTE_NS


def test_without_a_barrier_layer_i_waits_only_for_its_own_gradient() -> None:
    trainee = Trainee(LAYERS, barrier=False)
    trainee.start(0)
    run_until_wait(trainee)
    trainee.gradients_arrived([0], 50)
    assert trainee.running is not None
    trainee.compute_done()  # layer 0 of the next pass ends at 55
    assert trainee.running is None  # layer 1 is not there yet
    assert trainee.wanted_ns == {0: COMPUTE_NS, 1: 55}
    trainee.gradients_arrived([1, 2], 60)
    assert trainee.running is not None
    assert (trainee.running.layer, trainee.running.start_ns) == (1, 60)


def test_a_gradient_that_arrives_early_delays_nothing() -> None:
    trainee = Trainee(LAYERS, barrier=False)
    trainee.start(0)
    while trainee.running is not None and not (
        trainee.running.phase == "backward" and trainee.running.layer == 0
    ):
        trainee.compute_done()
    trainee.gradients_arrived([2, 1], 30)
    trainee.compute_done()
    trainee.gradients_arrived([0], COMPUTE_NS)
    assert [done.wait_ns for done in trainee.finished] == [0]


@given(
    st.lists(st.tuples(*[st.integers(1, 100)] * 3), min_size=1, max_size=8),
    st.booleans(),
    st.integers(0, 500),
)
def test_iterations_are_compute_plus_wait_and_follow_on_each_other(
    costs: list[tuple[int, int, int]], barrier: bool, delay_ns: int
) -> None:
    layers = [Layer(*cost) for cost in costs]
    trainee = Trainee(layers, barrier)
    trainee.start(0)
    for _ in range(3):
        ready = run_until_wait(trainee)
        now_ns = trainee.wanted_ns[0] + delay_ns
        while ready and trainee.running is None:
            trainee.gradients_arrived(ready, now_ns)
    compute_ns = sum(layer.forward_ns + layer.backward_ns for layer in layers)
    ends = 0
    for done in trainee.finished:
        assert done.start_ns == ends
        ends = done.end_ns
        assert done.compute_ns == compute_ns
        assert done.wait_ns == delay_ns


def coordinator(order: str, fusion_byte: int = 30) -> Coordinator:
    return Coordinator([10, 20, 30], workers=2, fusion_byte=fusion_byte, order=order)


def test_a_gradient_is_sent_only_when_every_worker_has_it() -> None:
    agreed = coordinator("fifo")
    agreed.gradient_ready(2)
    assert agreed.next_transfer() == []
    agreed.gradient_ready(2)
    assert agreed.next_transfer() == [2]


@pytest.mark.parametrize(("order", "expected"), [("fifo", [[2], [1, 0]]), ("layer", [[0, 1], [2]])])
def test_order_decides_what_goes_first(order: str, expected: list[list[int]]) -> None:
    agreed = coordinator(order)
    for layer in (2, 2, 1, 1, 0, 0):
        agreed.gradient_ready(layer)
    assert [agreed.next_transfer(), agreed.next_transfer(), agreed.next_transfer()] == [
        *expected,
        [],
    ]


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=20),
    st.integers(1, 5),
    st.integers(1, 150),
    st.sampled_from(["fifo", "layer"]),
    st.randoms(use_true_random=False),
)
def test_every_gradient_is_sent_once_and_fused_within_the_buffer(
    sizes: list[int], workers: int, fusion_byte: int, order: str, random: object
) -> None:
    agreed = Coordinator(sizes, workers, fusion_byte, order)
    tellings = [layer for layer in range(len(sizes)) for _ in range(workers)]
    random.shuffle(tellings)  # type: ignore[attr-defined]
    sent = []
    for layer in tellings:
        agreed.gradient_ready(layer)
        transfer = agreed.next_transfer()
        sent += transfer
        assert len(transfer) <= 1 or sum(sizes[at] for at in transfer) <= fusion_byte
    while transfer := agreed.next_transfer():
        sent += transfer
    assert sorted(sent) == list(range(len(sizes)))


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_spans_cover_everything_once_and_differ_by_at_most_one(total: int, parts: int) -> None:
    cut = spans(total, parts)
    assert [start for start, _ in cut] == [sum(n for _, n in cut[:at]) for at in range(parts)]
    assert sum(length for _, length in cut) == total
    assert max(length for _, length in cut) - min(length for _, length in cut) <= 1


@given(st.integers(2, 16))
def test_each_step_receives_what_the_worker_before_sends(workers: int) -> None:
    everyone = [steps(rank, workers) for rank in range(workers)]
    assert all(len(mine) == 2 * (workers - 1) for mine in everyone)
    for rank in range(workers):
        before = everyone[rank - 1]
        assert [step.receive for step in everyone[rank]] == [step.send for step in before]


def ring(workers: int) -> list[tuple[socket.socket, socket.socket]]:
    """(to the next, from the last) of each worker."""
    pairs = [socket.socketpair() for _ in range(workers)]
    for pair in pairs:
        for sock in pair:
            sock.setblocking(False)
    return [(pairs[rank][0], pairs[rank - 1][1]) for rank in range(workers)]


def pump(transfers: list[RingTransfer]) -> None:
    for _ in range(100_000):
        if all(transfer.done for transfer in transfers):
            return
        for transfer in transfers:
            transfer.pump_out()
            transfer.pump_in()
    raise AssertionError("the ring stands still")


@pytest.mark.parametrize(("workers", "count"), [(2, 1), (2, 1000), (3, 7), (5, 100_000), (8, 3)])
def test_the_ring_adds_up_real_numbers(workers: int, count: int) -> None:
    arrays = [sample_numbers(count, rank + 1) for rank in range(workers)]
    transfers: list[RingTransfer] = [
        NumberTransfer(numbers, rank, workers, *sockets)
        for rank, (numbers, sockets) in enumerate(zip(arrays, ring(workers), strict=True))
    ]
    pump(transfers)
    for numbers in arrays:
        check_sum(numbers, workers)


def test_a_wrong_sum_is_noticed() -> None:
    numbers = sample_numbers(100, 3)
    check_sum(numbers, workers=2)
    numbers[50] += 1
    with pytest.raises(ArithmeticError, match="at place 50"):
        check_sum(numbers, workers=2)


def test_each_worker_sends_its_share_of_every_step() -> None:
    workers, total = 4, 1_000_003
    sent = np.zeros(workers, int)

    class Counting(RingTransfer):
        def __init__(self, rank: int, *sockets: socket.socket) -> None:
            super().__init__(total, rank, workers, *sockets)
            self._rank = rank

        def _put(self, offset: int, length: int) -> int:
            count = self._outgoing.send(bytes(min(length, 65536)))
            sent[self._rank] += count
            return count

        def _take(self, offset: int, length: int) -> int:
            return len(self._incoming.recv(length))

    pump([Counting(rank, *sockets) for rank, sockets in enumerate(ring(workers))])
    exact = 2 * (workers - 1) / workers * total
    assert np.all(np.abs(sent - exact) <= 2 * (workers - 1))
