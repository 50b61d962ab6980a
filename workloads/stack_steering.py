"""Steers a worker of a real training stack from beside it: the framework does not notice.

The rule is the policy's, the same as for Giveway's own worker. What it sees is what a framework
shows of itself: when each gradient was made, and which all-reduces are done. It is asked at fixed
times, by the thread that watches over the worker, and its answer is put on the process's sockets.
"""

import os
from itertools import accumulate

from basics.bands import tos_of
from policies.link import rebuilt
from policies.steering import Gradient, Sight
from workloads.marking import mark
from workloads.stack_worker import Recorder, StackConfig

LOOKS = 100  # in the compute time of an iteration


class StackSteering:
    def __init__(self, settings: StackConfig, recorder: Recorder) -> None:
        assert settings.steered_by is not None
        made = rebuilt(settings.steered_by)
        assert made.steering is not None
        self._bands = made.bands
        self._band = self._bands[settings.priority]
        self._recorder = recorder
        self._bytes = [size for size, _, _ in settings.layers]
        forward_ns = sum(forward for _, forward, _ in settings.layers)
        backward_ns = [backward for _, _, backward in reversed(settings.layers)]
        # From the start of an iteration to each gradient, last layer first.
        self._made_ns = list(accumulate(backward_ns, initial=forward_ns))[1:]
        self.iteration_ns = self._made_ns[-1]
        self._rule = made.steering(self.iteration_ns)
        self.period_ns = max(1, self.iteration_ns // LOOKS)
        self._started_ns: int | None = None

    def look(self, now_ns: int) -> None:
        started_ns, exchanged, fresh = self._recorder.exchanges()
        for byte, took_ns in fresh:
            self._rule.learn(byte, took_ns)
        if self._started_ns is not None and started_ns > self._started_ns:
            self._rule.iterated(max(0, started_ns - self._started_ns - self.iteration_ns))
        self._started_ns = started_ns
        left = [one for one in self._gradients(started_ns) if one.layer not in exchanged]
        decision = self._rule.decide(Sight(now_ns, (), 0, left))
        if decision.band != self._band:
            self._band = decision.band
            self._recorder.priority = self._bands.index(decision.band)
            mark(os.getpid(), tos_of(decision.band))

    def _gradients(self, started_ns: int) -> list[Gradient]:
        """Frameworks send first what is ready first, and wait for all of it: a barrier."""
        due_ns = started_ns + self.iteration_ns
        last = len(self._bytes) - 1
        return [
            Gradient(last - at, self._bytes[last - at], started_ns + made_ns, due_ns)
            for at, made_ns in enumerate(self._made_ns)
        ]
