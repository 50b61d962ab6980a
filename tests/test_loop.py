"""The event loop: exact timers, in order, in experiment time."""

import os
import socket
import time
from functools import partial

import pytest

from workloads.loop import READ, Clock, Loop, QuietClock


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


class CountingClock(Clock):
    """How often it was read."""

    readings = 0

    def now_ns(self) -> int:
        CountingClock.readings += 1
        return super().now_ns()


def test_a_descriptor_that_was_closed_and_given_to_another_is_not_taken_for_ready() -> None:
    """Both are readable; whoever is served first closes the other, whose number a third gets."""
    loop = loop_from_now()
    pairs = [socket.socketpair() for _ in range(2)]
    heard: list[str] = []

    def served(own: int, events: int) -> None:
        for mine, _ in pairs:
            loop.unwatch(mine.fileno())
        other = pairs[1 - own][0]
        number = other.fileno()
        other.close()
        third, kept = socket.socketpair()
        pairs.append((third, kept))
        assert number in (third.fileno(), kept.fileno())
        reused = third if third.fileno() == number else kept
        loop.watch(number, READ, lambda events: heard.append(f"{reused.fileno()} has nothing"))
        loop.at(loop.clock.now_ns() + 1_000_000, loop.stop)

    for own, (mine, far) in enumerate(pairs):
        loop.watch(mine.fileno(), READ, partial(served, own))
        far.send(b"x")
    loop.run()
    for pair in pairs:
        for sock in pair:
            sock.close()
    assert heard == []


def test_what_is_watched_quietly_reads_no_clock() -> None:
    loop, heard = Loop(CountingClock(time.monotonic_ns())), []
    quiet, loud = os.pipe(), os.pipe()

    def hear(events: int) -> None:
        heard.append((os.read(quiet[0], 1), CountingClock.readings))
        os.write(quiet[1] if len(heard) < 3 else loud[1], b"x")

    def end(events: int) -> None:
        heard.append((os.read(loud[0], 1), CountingClock.readings))
        loop.stop()

    loop.watch_quietly(quiet[0], READ, hear)
    loop.watch(loud[0], READ, end)
    loop.at(10**12, loop.stop)
    os.write(quiet[1], b"x")
    loop.run()
    assert len(heard) == 4
    assert len({readings for _, readings in heard}) == 1
    for descriptor in (*quiet, *loud):
        os.close(descriptor)


@pytest.mark.parametrize("dilation", [1.0, 7.5])
def test_the_quiet_clock_goes_with_the_other(dilation: float) -> None:
    clock = Clock(time.monotonic_ns() - 5_000_000, dilation)
    quiet = QuietClock(clock)
    times = [read() for _ in range(20) for read in (clock.now_ns, quiet.now_ns)]
    assert times == sorted(times)
    assert times[0] > 0
