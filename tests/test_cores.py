"""Tasks that share the cores of a host: when each is through, exactly."""

import heapq
import itertools
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_parameter_server import COMPUTE_NS, plan
from tests.toy_world import ToyNetwork
from workloads.cores import Cores

Task = tuple[int, int]  # begins, and so long it computes alone
tasks = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), min_size=1, max_size=8)


class Timer:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = itertools.count()

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time_ns, next(self._counter), callback))

    def run(self) -> None:
        while self._heap:
            heapq.heappop(self._heap)[2]()


def ends(cores: int, given_tasks: list[Task]) -> list[int]:
    """When each task is through."""
    timer, found = Timer(), [-1] * len(given_tasks)
    shared = Cores(cores, timer.at)
    for at, (start_ns, length_ns) in enumerate(given_tasks):

        def begin(at: int = at, start_ns: int = start_ns, length_ns: int = length_ns) -> None:
            shared.compute(start_ns, length_ns, lambda end_ns: found.__setitem__(at, end_ns))

        timer.at(start_ns, begin)
    timer.run()
    return found


def exact_ends(cores: int, given_tasks: list[Task]) -> list[Fraction]:
    """The same, task by task and from event to event, by what each still has to compute."""
    left = {at: Fraction(length) for at, (_, length) in enumerate(given_tasks)}
    found: dict[int, Fraction] = {}
    now = Fraction(0)
    while left:
        there = [at for at in left if given_tasks[at][0] <= now]
        for at in [at for at in there if left[at] == 0]:
            found[at] = now
            del left[at]
        there = [at for at in there if at in left]
        speed = min(Fraction(1), Fraction(cores, len(there))) if there else Fraction(0)
        steps = [left[at] / speed for at in there]
        steps += [start - now for start, _ in given_tasks if start > now]
        if not steps:
            break
        for at in there:
            left[at] -= speed * min(steps)
        now += min(steps)
    return [found[at] for at in range(len(given_tasks))]


def test_two_tasks_on_one_core_take_twice_as_long_while_both_compute() -> None:
    assert ends(1, [(0, 10), (0, 10)]) == [20, 20]
    assert ends(1, [(0, 10), (5, 10)]) == [15, 20]
    assert ends(2, [(0, 10), (5, 10)]) == [10, 15]
    assert ends(2, [(0, 10), (0, 10), (0, 10)]) == [15, 15, 15]


@given(st.integers(8, 20), tasks)
def test_with_a_core_each_nobody_waits(cores: int, given_tasks: list[Task]) -> None:
    assert ends(cores, given_tasks) == [start + length for start, length in given_tasks]


@given(st.integers(1, 4), tasks)
def test_everybody_has_the_same_share_of_the_cores(cores: int, given_tasks: list[Task]) -> None:
    """Only whole nanoseconds are later than exact, and each end may be so once more."""
    for end, exact in zip(ends(cores, given_tasks), exact_ends(cores, given_tasks), strict=True):
        assert exact <= end < exact + len(given_tasks)


@pytest.mark.parametrize(("cores", "compute_ns"), [(1, 3 * COMPUTE_NS), (3, COMPUTE_NS)])
def test_workers_of_a_host_compute_for_longer_on_fewer_cores(cores: int, compute_ns: int) -> None:
    network = ToyNetwork(plan(workers=3, steps=2), rate=1e9, cores=cores)
    for rank in network.ranks[:3]:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    found = [row[-2] for row in network.rows if row[0] == "iterations"]
    assert found == [compute_ns] * 6
    slowed = [row[7] - row[6] for row in network.rows if row[0] == "computes"]
    assert sum(slowed) == 6 * compute_ns
