"""What a daemon tells a stack's worker on a placement: which iterations may begin, and the end.

A framework blocks where it likes, so a thread of its own follows these words, shows that the worker
lives, and ends its process. Knows no torch.
"""

import json
import os
import select
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import Clock
from workloads.marking import mark
from workloads.placed_ranks import KeptRows
from workloads.stack_ranks import STATE, DaemonLine
from workloads.stack_worker import Recorder, StackConfig
from workloads.task import BEAT_REAL_NS, lateness


class IterationTurns:
    """Which iterations may begin: set by one thread, awaited by the other."""

    def __init__(self, first: int, total: int) -> None:
        self._changed = threading.Condition()
        self._next, self._before = first, total
        self._gone = self._held = False
        self._shift_ns: dict[int, int] = {}

    def await_go(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._gone)

    def go(self) -> None:
        with self._changed:
            self._gone = True
            self._changed.notify()

    def hold(self) -> int:
        """Begin no other iteration; returns which would be next."""
        with self._changed:
            self._held = True
            return self._next

    def until(self, before: int, shifted: int, by_ns: int) -> None:
        """Go on, and rest before that one; one of them begins so much later."""
        with self._changed:
            self._held, self._before = False, before
            self._shift_ns[shifted] = self._shift_ns.get(shifted, 0) + by_ns
            self._changed.notify()

    def await_turn(self) -> tuple[int | None, int, bool]:
        """The iteration that begins now, how much later, and if it was held; or none: rest."""
        with self._changed:
            held = self._held
            self._changed.wait_for(lambda: not self._held)
            if self._next >= self._before:
                return None, 0, held
            self._next += 1
            return self._next - 1, self._shift_ns.pop(self._next - 1, 0), held

    @property
    def resting(self) -> int:
        """The iteration that it rests before."""
        return self._next


class Orders(threading.Thread):
    """What its daemon says, and what every task does besides its work."""

    def __init__(
        self,
        settings: StackConfig,
        control: Control,
        line: DaemonLine,
        turns: IterationTurns,
        recorder: Recorder,
        rows: KeptRows,
        clock: Clock,
        tos: int,
    ) -> None:
        super().__init__(name="orders", daemon=True)
        self._settings, self._control, self._line = settings, control, line
        self._turns, self._recorder, self._rows = turns, recorder, rows
        self._clock = clock
        self._lock = threading.Lock()
        self._finished = False
        self._tos, self._marking = tos, threading.Lock()
        self.final: str | None = None  # the state after the last iteration

    def say(self, what: str, **details: Any) -> None:
        with self._lock:
            if not self._finished:  # else the run is over, and its peers leave one by one
                self._line.say(what, **details)

    def give(self, state: bytes) -> None:
        with self._lock:
            self._line.send(STATE, state)

    def mark(self, tos: int | None = None) -> None:
        """Put all connections into another band, or new ones into that of the others."""
        with self._marking:
            self._tos = self._tos if tos is None else tos
            mark(os.getpid(), self._tos)

    def run(self) -> None:
        try:
            self._follow()
        except SystemExit:
            os._exit(1)  # the controller is gone
        except (OSError, EOFError):
            os._exit(0)  # its daemon is gone, and with it this host

    def _follow(self) -> None:
        end_real_ns = self._clock.real_ns(self._settings.duration_ns)
        beat_ns = time.monotonic_ns()
        while True:
            now_ns = time.monotonic_ns()
            if now_ns >= end_real_ns:
                self._close()
                self._leave()
            if now_ns >= beat_ns:
                self._control.say("beat", time_ns=max(0, self._clock.now_ns()))
                beat_ns = now_ns + BEAT_REAL_NS
            wait_s = (min(beat_ns, end_real_ns) - now_ns) / 1e9
            lines = [self._control.fileno(), self._line.fileno()]
            heard, _, _ = select.select(lines, [], [], wait_s)
            if lines[0] in heard:
                self._leave()
            if lines[1] in heard:
                self._do(json.loads(self._line.hear()))

    def _do(self, word: dict[str, Any]) -> None:
        if word["do"] == "go":
            self._turns.go()
        elif word["do"] == "hold":
            self.say("held", next=self._turns.hold())
        elif word["do"] == "until":
            self._turns.until(word["before"], word.get("next", 0), word.get("by_ns", 0))
        elif word["do"] == "band":
            self._recorder.priority = word["priority"]
            self.mark(word["tos"])
        elif word["do"] == "end":
            self._close()
            os._exit(0)
        elif word["do"] == "leave":  # what it did has not happened
            os._exit(0)

    def _close(self) -> None:
        """Its records are whole; if it was its last iteration, the state is too."""
        with self._lock:
            self._finished = True
        self._recorder.close()
        with Journal(Path(self._settings.journal)) as journal:
            self._rows.hand_over(journal)
        self._control.say(
            "done",
            sleep_late_ns=lateness(self._recorder.late_ns),
            iterations=self._recorder.iterations,
            job=self._settings.job,
            state=self.final,
        )

    def _leave(self) -> NoReturn:
        """When told to go: others still train with this one."""
        self._control.hear()
        os._exit(0)

    def await_the_end(self) -> NoReturn:
        """For the training thread: the other one ends the process."""
        while True:
            time.sleep(1)
