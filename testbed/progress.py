"""Telling people how far runs are: bars with the time left on a terminal, else plain lines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """A context manager: bars are drawn while it is entered. Safe to use from several threads."""

    def __init__(self, console: Console, runs: int) -> None:
        self._console = console
        self._runs = runs
        self._number = 0
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done_s]:.1f} s"),
            TimeRemainingColumn(),
            console=console,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def run(self, name: str, duration_ns: int) -> Iterator[Callable[[int], None]]:
        """Show one run; yields a function to be called with the experiment time that is done."""
        self._number += 1
        label = f"[{self._number}/{self._runs}] {name}"
        if self._console.is_terminal:
            yield from self._bar(label, duration_ns)
        else:
            yield from self._lines(label, duration_ns)

    def _bar(self, label: str, duration_ns: int) -> Iterator[Callable[[int], None]]:
        bar = self._bars.add_task(label.replace("[", r"\["), total=duration_ns, done_s=0.0)

        def show(done_ns: int) -> None:
            self._bars.update(bar, completed=done_ns, done_s=done_ns / 1e9)

        yield show
        show(duration_ns)

    def _lines(self, label: str, duration_ns: int) -> Iterator[Callable[[int], None]]:
        started_s = time.monotonic()
        self.say(f"{label}: {duration_ns / 1e9:g} s of experiment time …")
        yield lambda done_ns: None
        self.say(f"{label}: done in {time.monotonic() - started_s:.1f} s")


class OneBar(Progress):
    """One bar for any number of runs, which moves with the experiment time that is done in all.

    Elsewhere than on a terminal: a line at every twentieth of the runs, or after a minute.
    """

    LINES = 20
    QUIET_S = 60.0

    def __init__(self, console: Console, runs: int) -> None:
        super().__init__(console, runs)
        self._done = 0
        self._began_s = self._said_s = time.monotonic()
        self._lock = threading.Lock()
        self._bars = Bars(
            TextColumn("{task.fields[done]} of {task.fields[runs]} runs"),
            BarColumn(bar_width=None),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            expand=True,
            speed_estimate_period=600,
        )
        self._bar_id = self._bars.add_task("runs", total=runs, done=0, runs=runs)

    @contextmanager
    def run(self, name: str, duration_ns: int) -> Iterator[Callable[[int], None]]:
        shown = 0.0

        def show(done_ns: int) -> None:
            nonlocal shown
            share = min(1.0, done_ns / duration_ns)
            self._bars.advance(self._bar_id, share - shown)
            shown = share

        yield show
        with self._lock:
            show(duration_ns)
            self._done += 1
            self._bars.update(self._bar_id, done=self._done)
            if not self._console.is_terminal and self._at_a_line():
                self._said_s = time.monotonic()
                spent_s = self._said_s - self._began_s
                left_s = spent_s / self._done * (self._runs - self._done)
                self.say(
                    f"{self._done} of {self._runs} runs in {spent_s:.0f} s, "
                    f"about {left_s:.0f} s left"
                )

    def _at_a_line(self) -> bool:
        lines = min(self.LINES, self._runs)
        passed = self._done * lines // self._runs > (self._done - 1) * lines // self._runs
        return passed or time.monotonic() - self._said_s > self.QUIET_S


@contextmanager
def counted(console: Console, label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show how many of `total` equal steps are done; yields a function to be called after each.

    A bar with the time left on a terminal, else a line at every quarter.
    """
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Bars(*columns, console=console, transient=True) as bars:
            bar = bars.add_task(label, total=total)
            yield lambda: bars.advance(bar)
        return
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if done * 4 // total > (done - 1) * 4 // total:
            console.print(f"{label}: {done} of {total}", markup=False, highlight=False)

    yield step
