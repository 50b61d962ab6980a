"""What a worker computes and what rank 0 decides, without a network."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.agreed import Coordinator
from workloads.compute import BACKWARD, Trainee, group_by_group, layer_by_layer
from workloads.job_plan import JobPlan
from workloads.profiles import Layer

LAYERS = [Layer(10, 5, 7), Layer(20, 6, 8), Layer(30, 4, 9)]
COMPUTE_NS = 5 + 6 + 4 + 7 + 8 + 9


def trainee_of(layers: list[Layer], barrier: bool, steps: int | None = None) -> Trainee:
    return Trainee(layer_by_layer(layers, barrier=barrier), steps=steps)


def run_until_wait(trainee: Trainee) -> list[int]:
    """Compute until a gradient is missing; returns the layers that became ready, in order."""
    ready: list[int] = []
    while trainee.running is not None:
        ready += trainee.compute_done()
    return ready


def test_backward_pass_makes_gradients_ready_from_the_last_layer_to_the_first() -> None:
    trainee = trainee_of(LAYERS, barrier=True)
    trainee.start(0)
    assert run_until_wait(trainee) == [2, 1, 0]


def test_with_a_barrier_the_next_pass_waits_for_every_gradient() -> None:
    trainee = trainee_of(LAYERS, barrier=True)
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
    trainee = trainee_of(LAYERS, barrier=False)
    trainee.start(0)
    run_until_wait(trainee)
    trainee.gradients_arrived([0], 50)
    assert trainee.running is not None
    trainee.compute_done()  # layer 0 of the next pass ends at 55
    assert trainee.running is None  # layer 1 is not there yet
    assert trainee.wanted_ns == {0: COMPUTE_NS, 1: 55}
    trainee.gradients_arrived([1, 2], 60)
    assert trainee.running is not None
    assert (trainee.running.stretch.first_layer, trainee.running.start_ns) == (1, 60)


def test_a_gradient_that_arrives_early_delays_nothing() -> None:
    trainee = trainee_of(LAYERS, barrier=False)
    trainee.start(0)
    while trainee.running is not None and not (
        trainee.running.stretch.phase == BACKWARD and trainee.running.stretch.first_layer == 0
    ):
        trainee.compute_done()
    trainee.gradients_arrived([2, 1], 30)
    trainee.compute_done()
    trainee.gradients_arrived([0], COMPUTE_NS)
    assert [done.wait_ns for done in trainee.finished] == [0]


def test_a_worker_with_steps_rests_after_them() -> None:
    trainee = trainee_of(LAYERS, barrier=True, steps=2)
    trainee.start(0)
    for time_ns in (100, 200):
        assert not trainee.resting
        trainee.gradients_arrived(run_until_wait(trainee), time_ns)
    assert trainee.resting
    assert trainee.running is None
    assert [done.iteration for done in trainee.finished] == [0, 1]
    trainee.gradients_arrived([0, 1, 2], 300)
    assert trainee.running is None


def test_a_worker_that_lacks_its_model_begins_when_it_has_it_all() -> None:
    trainee = Trainee(group_by_group(LAYERS, 100), missing=range(3))
    trainee.start(0)
    trainee.gradients_arrived([0, 2], 5)
    assert trainee.running is None
    trainee.gradients_arrived([1], 12)
    assert trainee.running is not None
    assert (trainee.running.iteration, trainee.running.start_ns) == (0, 12)
    assert trainee.finished == []


def test_gradients_that_fit_into_the_fusion_buffer_are_ready_together_from_the_back() -> None:
    _, *backward = group_by_group(LAYERS, fusion_byte=30)
    assert [(one.first_layer, one.layers, one.gives) for one in backward] == [
        (2, 1, (2,)),
        (0, 2, (1, 0)),
    ]
    assert backward[1].length_ns == 7 + 8


@given(
    st.lists(st.builds(Layer, *[st.integers(16, 1000)] * 3), min_size=1, max_size=10),
    st.integers(1, 5000),
)
def test_in_groups_every_layer_is_computed_and_given_once(
    layers: list[Layer], fusion_byte: int
) -> None:
    made = group_by_group(layers, fusion_byte)
    compute_ns = sum(layer.forward_ns + layer.backward_ns for layer in layers)
    assert sum(stretch.length_ns for stretch in made) == compute_ns
    assert [layer for one in made for layer in one.gives] == list(range(len(layers)))[::-1]
    for stretch in made:
        assert stretch.layers <= 1 or sum(layers[at].bytes for at in stretch.gives) <= fusion_byte


@given(
    st.lists(st.tuples(*[st.integers(1, 100)] * 3), min_size=1, max_size=8),
    st.booleans(),
    st.integers(0, 500),
)
def test_iterations_are_compute_plus_wait_and_follow_on_each_other(
    costs: list[tuple[int, int, int]], barrier: bool, delay_ns: int
) -> None:
    layers = [Layer(*cost) for cost in costs]
    trainee = trainee_of(layers, barrier)
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


def coordinator(
    order: str, fusion_byte: int = 30, sizes: Sequence[int] = (10, 20, 30), workers: int = 2
) -> Coordinator:
    return Coordinator(
        JobPlan(
            name="job", aggregation="ring", workers=workers, fusion_byte=fusion_byte,
            layers=tuple(Layer(size, 0, 0) for size in sizes), barrier=True, start_ns=0, steps=None,
            check=False, bands=("all",), band="all", transfer={"policy": order, "options": {}},
        )
    )  # fmt: skip


def sent_next(agreed: Coordinator) -> list[int]:
    """The layers of the next transfer, which is then done."""
    parts = agreed.next_transfer()
    agreed.transfer_done(parts)
    return [layer for part in parts for layer in part.layers]


def test_a_gradient_is_sent_only_when_every_worker_has_it() -> None:
    agreed = coordinator("fifo")
    agreed.gradient_ready(2)
    assert sent_next(agreed) == []
    agreed.gradient_ready(2)
    assert sent_next(agreed) == [2]


@pytest.mark.parametrize(("order", "expected"), [("fifo", [[2], [1, 0]]), ("layer", [[0, 1], [2]])])
def test_order_decides_what_goes_first(order: str, expected: list[list[int]]) -> None:
    agreed = coordinator(order)
    for layer in (2, 2, 1, 1, 0, 0):
        agreed.gradient_ready(layer)
    assert [sent_next(agreed), sent_next(agreed), sent_next(agreed)] == [*expected, []]


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
    agreed = coordinator(order, fusion_byte, sizes, workers)
    tellings = [layer for layer in range(len(sizes)) for _ in range(workers)]
    random.shuffle(tellings)  # type: ignore[attr-defined]
    sent = []
    for layer in tellings:
        agreed.gradient_ready(layer)
        transfer = sent_next(agreed)
        sent += transfer
        assert len(transfer) <= 1 or sum(sizes[at] for at in transfer) <= fusion_byte
    while transfer := sent_next(agreed):
        sent += transfer
    assert sorted(sent) == list(range(len(sizes)))
