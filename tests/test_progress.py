"""Progress without a terminal: never silent for minutes, at most a line every ten seconds."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from testbed import progress
from testbed.progress import OneBar, Progress

SECOND = 1_000_000_000


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass."""
    now_s = 1.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)

    def later(by_s: float) -> None:
        nonlocal now_s
        now_s += by_s

    return later


def plain() -> tuple[Console, Callable[[], list[str]]]:
    file = io.StringIO()
    return Console(file=file, width=40), lambda: file.getvalue().splitlines()


def test_a_long_run_says_how_far_it_is(passes: Callable[[float], None]) -> None:
    console, lines = plain()
    with Progress(console, 2) as shown, shown.run("fifo, seed 0", 4 * SECOND) as on_time:
        for step in range(1, 40):
            passes(1)
            on_time(step * SECOND // 10)
    assert lines() == [
        "[1/2] fifo, seed 0: 4 s of experiment time …",
        "[1/2] fifo, seed 0: 1.0 of 4 s",
        "[1/2] fifo, seed 0: 2.0 of 4 s",
        "[1/2] fifo, seed 0: 3.0 of 4 s",
        "[1/2] fifo, seed 0: done in 39.0 s",
    ]


def test_runs_side_by_side_share_a_line(passes: Callable[[float], None]) -> None:
    console, lines = plain()
    with (
        Progress(console, 2) as shown,
        shown.run("a", SECOND) as one,
        shown.run("b", SECOND) as other,
    ):
        passes(9)
        one(SECOND // 2)
        passes(2)
        other(SECOND // 4)
        one(SECOND)
    assert lines()[2:3] == ["[1/2] a: 0.5 of 1 s; [2/2] b: 0.2 of 1 s"]
    assert len(lines()) == 5


def test_a_short_run_says_nothing_between(passes: Callable[[float], None]) -> None:
    console, lines = plain()
    with Progress(console, 1) as shown, shown.run("a", SECOND) as on_time:
        passes(9)
        on_time(SECOND // 2)
    assert len(lines()) == 2


def test_a_sweep_of_long_runs_is_not_silent_either(passes: Callable[[float], None]) -> None:
    console, lines = plain()
    bar = OneBar(console, 2)
    with bar:
        with bar.run("a", 10 * SECOND) as on_time:
            passes(11)
            on_time(0)
            for step in range(1, 31):
                passes(1)
                on_time(step * SECOND // 3)
        with bar.run("b", SECOND) as on_time:
            passes(5)
    assert lines() == [
        "0 of 2 runs in 11 s",
        "0 of 2 runs (17 % of the work) in 21 s, about 105 s left",
        "0 of 2 runs (33 % of the work) in 31 s, about 62 s left",
        "0 of 2 runs (50 % of the work) in 41 s, about 41 s left",
        "1 of 2 runs in 41 s, about 41 s left",
        "2 of 2 runs in 46 s",
    ]
