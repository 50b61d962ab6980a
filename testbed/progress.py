"""Telling people how far a run is: a bar with the time left on a terminal, else plain lines."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    def __init__(self, console: Console, runs: int) -> None:
        self._console = console
        self._runs = runs
        self._number = 0

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def run(self, name: str, real_ns: int) -> Iterator[Callable[[int], None]]:
        """Show one run; yields a function to be called with the real nanoseconds done."""
        self._number += 1
        label = f"[{self._number}/{self._runs}] {name}"
        if self._console.is_terminal:
            yield from self._bar(label, real_ns)
        else:
            yield from self._lines(label, real_ns)

    def _bar(self, label: str, real_ns: int) -> Iterator[Callable[[int], None]]:
        columns = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()]
        with Bars(*columns, console=self._console) as bars:
            bar = bars.add_task(label, total=real_ns)
            yield lambda done_ns: bars.update(bar, completed=done_ns)
            bars.update(bar, completed=real_ns)

    def _lines(self, label: str, real_ns: int) -> Iterator[Callable[[int], None]]:
        started_s = time.monotonic()
        self._console.print(f"{label} … {real_ns / 1e9:.0f} s", highlight=False, markup=False)
        yield lambda done_ns: None
        took_s = time.monotonic() - started_s
        self._console.print(f"{label} done in {took_s:.1f} s", highlight=False, markup=False)
