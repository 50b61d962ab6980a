"""The event loop: exact timers, in order, in experiment time."""

import os
import time

import pytest

from workloads.loop import READ, Clock, Loop


def loop_from_now(dilation: float = 1.0) -> Loop:
    return Loop(Clock(time.monotonic_ns(), dilation))


def test_timers_fire_in_order_and_ties_in_the_order_they_were_set() -> None:
    loop, fired = loop_from_now(), []
    for name, time_ns in [("c", 3_000_000), ("a", 1_000_000), ("a2", 1_000_000), ("b", 2_000_000)]:
        loop.at(time_ns, lambda name=name: fired.append(name))  # type: ignore[misc]
    loop.at(4_000_000, loop.stop)
    loop.run()
    assert fired == ["a", "a2", "b", "c"]


def test_a_timer_never_fires_early() -> None:
    loop, early = loop_from_now(), []

    def check(due_ns: int) -> None:
        early.append(loop.clock.now_ns() < due_ns)

    for due_ns in range(100_000, 20_000_000, 300_007):
        loop.at(due_ns, lambda due_ns=due_ns: check(due_ns))  # type: ignore[misc]
    loop.at(21_000_000, loop.stop)
    loop.run()
    assert early
    assert not any(early)


@pytest.mark.parametrize("dilation", [1.0, 3.0, 7.5])
def test_dilated_time_takes_longer_and_reads_the_same(dilation: float) -> None:
    started_ns = time.monotonic_ns()
    loop = loop_from_now(dilation)
    loop.at(10_000_000, loop.stop)
    loop.run()
    assert time.monotonic_ns() - started_ns >= 10_000_000 * dilation
    assert loop.clock.now_ns() >= 10_000_000


def test_a_timer_may_set_an_earlier_one() -> None:
    loop, fired = loop_from_now(), []
    loop.at(50_000_000, lambda: fired.append("late"))

    def soon() -> None:
        fired.append("first")
        loop.at(0, lambda: fired.append("overdue"))
        loop.at(2_000_000, loop.stop)

    loop.at(1_000_000, soon)
    loop.run()
    assert fired == ["first", "overdue"]


def test_descriptors_are_served_until_unwatched() -> None:
    loop, seen = loop_from_now(), []
    reading, writing = os.pipe()

    def take(events: int) -> None:
        seen.append(os.read(reading, 1))
        if len(seen) == 3:
            loop.unwatch(reading)
            loop.at(0, loop.stop)

    loop.watch(reading, READ, take)
    os.write(writing, b"abcd")
    loop.run()
    assert seen == [b"a", b"b", b"c"]
    os.close(reading)
    os.close(writing)
