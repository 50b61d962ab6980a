"""Telling people how far runs are: bars with the time left on a terminal, else plain lines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

QUIET_S = 10.0  # without a terminal, a line says how far runs are about as often
MOST_LISTED = 4  # runs in such a line


class Progress:
    """A context manager: bars are drawn while it is entered. Safe to use from several threads."""

    def __init__(self, console: Console, runs: int) -> None:
        self._console = console
        self._runs = runs
        self._number = 0
        self._lock = threading.Lock()
        self._said_s = time.monotonic()
        self._under_way: dict[str, str] = {}  # without a terminal: how far each run is
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
        whole_s = f"{duration_ns / 1e9:.12g} s"
        self.say(f"{label}: {whole_s} of experiment time …")

        def show(done_ns: int) -> None:
            with self._lock:
                self._under_way[label] = f"{label}: {done_ns / 1e9:.1f} of {whole_s}"
                if self._was_quiet():
                    self.say(self._listed())

        try:
            yield show
        finally:
            with self._lock:
                self._under_way.pop(label, None)
        self.say(f"{label}: done in {time.monotonic() - started_s:.1f} s")

    def _was_quiet(self) -> bool:
        """Whether it is time for a line; if so, the next one is as far away again."""
        now_s = time.monotonic()
        if now_s - self._said_s < QUIET_S:
            return False
        self._said_s = now_s
        return True

    def _listed(self) -> str:
        found = list(self._under_way.values())
        more = [f"{len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else []
        return "; ".join([*found[:MOST_LISTED], *more])


class OneBar(Progress):
    """One bar for any number of runs, which moves with the experiment time that is done in all.

    Elsewhere than on a terminal: a line at every twentieth of the runs, or after ten seconds.
    """

    LINES = 20

    def __init__(self, console: Console, runs: int) -> None:
        super().__init__(console, runs)
        self._done = 0
        self._shares = 0.0  # of all runs, those under way included
        self._began_s: float | None = None
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
        self._began_s = self._began_s or time.monotonic()  # what came before is no run's work

        def moved(done_ns: int) -> None:
            nonlocal shown
            share = min(1.0, done_ns / duration_ns)
            self._bars.advance(self._bar_id, share - shown)
            self._shares += share - shown
            shown = share

        def show(done_ns: int) -> None:
            with self._lock:
                moved(done_ns)
                if not self._console.is_terminal and self._was_quiet():
                    self.say(self._so_far())

        yield show
        with self._lock:
            moved(duration_ns)
            self._done += 1
            self._bars.update(self._bar_id, done=self._done)
            if not self._console.is_terminal and (self._passed_a_mark() or self._was_quiet()):
                self._said_s = time.monotonic()
                self.say(self._so_far())

    def _so_far(self) -> str:
        spent_s = time.monotonic() - (self._began_s or 0.0)
        said = f"{self._done} of {self._runs} runs"
        if self._shares > self._done + 1e-9:
            said += f" ({100 * self._shares / self._runs:.0f} % of the work)"
        if not self._shares or self._done == self._runs:
            return f"{said} in {spent_s:.0f} s"
        left_s = spent_s / self._shares * (self._runs - self._shares)
        return f"{said} in {spent_s:.0f} s, about {left_s:.0f} s left"

    def _passed_a_mark(self) -> bool:
        lines = min(self.LINES, self._runs)
        return self._done * lines // self._runs > (self._done - 1) * lines // self._runs


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
