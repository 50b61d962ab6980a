"""The tasks of one run, led through their phases together.

Nobody sleeps and hopes: each phase ends when every task has said so, and a task that dies, or
falls silent for longer than HANG_LIMIT_S, ends the run with its name and its last words.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from basics.errors import RunFailed
from testbed.processes import Nursery, Task

HANG_LIMIT_S = 3.5


class Crew:
    def __init__(
        self,
        nursery: Nursery,
        tasks: Iterable[Task],
        start: Callable[[dict[str, Any]], Task] | None = None,
    ) -> None:
        """`start`: the task that another one asks for in mid-run."""
        self._nursery, self._start = nursery, start
        self.tasks = list(tasks)
        self.begun: list[Task] = []  # in mid-run; such a task may end before the others
        self.lost: list[str] = []
        self._kills_before = kills_for_memory()

    def tell(self, **message: Any) -> None:
        for task in self.tasks:
            task.tell(**message)

    def await_all(
        self,
        event: str,
        tasks: Iterable[Task] | None = None,
        *,
        on_time: Callable[[int], None] = lambda time_ns: None,
        may_die: Iterable[Task] = (),
        may_be_killed: Iterable[Task] = (),
        wait_s: float = 0.25,
        hang_limit_s: float = HANG_LIMIT_S,
    ) -> None:
        """Until every task has said `event`; calls `on_time` with how far they say they are.

        If one says `over`, all hear it. Looks every `wait_s` whether one has fallen silent, for
        longer than `hang_limit_s`. A task that may die is left behind if it does, and `lost` says
        how; one that may be killed, if a signal ended it and not a mistake.
        """
        expendable = {task.name for task in may_die}
        mortal = {task.name for task in may_be_killed}
        asked = self.tasks if tasks is None else tasks
        waiting = {task.name for task in asked if event not in task.said}
        for task in self.tasks:
            task.last_heard_s = time.monotonic()
        while waiting:
            for task, message in self._nursery.events(wait_s):
                if message["event"] == "over":
                    self.tell(over=True)
                elif message["event"] == "start" and self._start is not None:
                    self.begun.append(self._start(message))
                    self.tasks.append(self.begun[-1])
                    waiting.add(self.begun[-1].name)
                elif message["event"] == event:
                    waiting.discard(task.name)
                elif message["event"] == "beat":
                    on_time(message["time_ns"])
                elif message["event"] == "exit" and (
                    task.name in expendable or (task.name in mortal and (task.exit_code or 0) < 0)
                ):
                    self.lost.append(f"{task.name} {self._ending(task)}")
                    self.tasks.remove(task)
                    waiting.discard(task.name)
                elif message["event"] == "exit" and task in self.begun and task.exit_code == 0:
                    task.listen()  # what it said last
                    self.tasks.remove(task)
                    waiting.discard(task.name)
                    self._nursery.forget(task)
                elif message["event"] == "exit":
                    self._died(task)
            self._check_alive(waiting, event, mortal, hang_limit_s)

    def dismiss(self) -> None:
        """All is done: let the tasks go, and wait until they are gone.

        How they go does not matter any more. Records were closed when a task said `done`, and a
        training framework whose peers leave a moment before it may well abort.
        """
        self.tell(bye=True)
        give_up_s = time.monotonic() + HANG_LIMIT_S
        while any(task.exit_code is None for task in self.tasks):
            for _ in self._nursery.events(wait_s=0.25):
                pass
            if time.monotonic() > give_up_s:
                late = next(task for task in self.tasks if task.exit_code is None)
                raise RunFailed(f"{late.name} did not end when told to")
        for task in self.tasks:
            self._nursery.forget(task)

    def _check_alive(self, waiting: set[str], event: str, mortal: set[str], limit_s: float) -> None:
        now_s = time.monotonic()
        for task in self.tasks:
            if task.name in waiting and now_s - task.last_heard_s > limit_s:
                if task.name in mortal and task.pid is not None:  # others do without it by now
                    os.kill(task.pid, signal.SIGKILL)
                    task.last_heard_s = now_s
                    continue
                raise RunFailed(
                    f"{task.name} (process {task.pid}) has been silent for {limit_s:g} s, "
                    f"waiting for it to say `{event}`; {last_words(task)}"
                )

    def _died(self, task: Task) -> None:
        raise RunFailed(f"{task.name} {self._ending(task)}; {last_words(task)}")

    def _ending(self, task: Task) -> str:
        """How a task ended, and why if it said so or the kernel did."""
        code = task.exit_code or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        task.listen()  # it may have said why, and its log may be on a full disk
        why = f": {task.said['error']['message']}" if "error" in task.said else ""
        if code == -signal.SIGKILL and not why:
            why = memory_ran_out(self._kills_before, kills_for_memory())
        return f"{how}{why}"


def kills_for_memory() -> int | None:
    """How many processes the kernel has killed because memory had run out, if it counts them."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def memory_ran_out(kills_before: int | None, kills: int | None) -> str:
    """What to say of a task that was killed; nothing if it was not for its memory."""
    if kills is not None and kills == kills_before:
        return ""
    sure = "" if kills is not None else "perhaps "
    return f": {sure}memory ran out; use fewer workers, or train a smaller model"


def last_words(task: Task) -> str:
    """Where its log is, and how that ends if the task itself has not said why it ended."""
    tail = task.log_tail()
    if "error" in task.said or not tail:
        return f"its log: {task.log}"
    return f"its log ends with `{tail}` ({task.log})"
