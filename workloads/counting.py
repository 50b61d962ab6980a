"""Numbers that are known beforehand: what ranks calculate with in test mode (`check: true`).

Every worker's gradient is a pattern times its rank plus one, so every sum is known, and a block
that went astray shows. A test plugs real training in by replacing `arithmetic`.
"""

from collections import defaultdict
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.job_plan import JobPlan
from workloads.world import Message

Numbers = NDArray[np.float32]


def sample_numbers(count: int, factor: int) -> Numbers:
    """Numbers that differ from place to place, so that a misplaced block shows."""
    return (factor * (1 + np.arange(count) % 97)).astype(np.float32)


def check_sum(numbers: Numbers, workers: int) -> None:
    """What `sample_numbers(count, rank + 1)` of every rank must add up to."""
    expected = sample_numbers(numbers.size, workers * (workers + 1) // 2)
    wrong = np.flatnonzero(numbers != expected)
    if wrong.size:
        first = wrong[0]
        raise ArithmeticError(
            f"the all-reduce gave {numbers[first]} instead of {expected[first]} at place {first} "
            f"and was wrong at {wrong.size} of {numbers.size} places"
        )


class Arithmetic(Protocol):
    """What the servers and workers of a job calculate, for one shard of the model."""

    def first_model(self) -> Numbers: ...

    def updated(self, model: Numbers, gradient: Numbers) -> Numbers: ...

    def gradient(self, rank: int, model: Numbers) -> Numbers: ...

    def check(self, model: Numbers, step: int) -> None: ...


def arithmetic(plan: JobPlan, shard: int) -> Arithmetic:
    start, length = plan.shards[shard]
    return Counting(start // 4, length // 4, plan.workers, plan.staleness)


class Counting:
    """The model starts at nothing, and each gradient of rank r adds (r + 1) times the pattern."""

    def __init__(self, start: int, count: int, workers: int, staleness: int | None) -> None:
        """For the part of the model that begins at this number and has so many."""
        self._pattern = sample_numbers(start + count, 1)[start:]
        self._workers = workers
        self._exact = staleness == 0

    def first_model(self) -> Numbers:
        return np.zeros_like(self._pattern)

    def updated(self, model: Numbers, gradient: Numbers) -> Numbers:
        return model + gradient

    def gradient(self, rank: int, model: Numbers) -> Numbers:
        return self._pattern * np.float32(rank + 1)

    def check(self, model: Numbers, step: int) -> None:
        """A model that a worker got after so many steps. Raises ArithmeticError if it is wrong.

        Only synchronous training says how often the pattern is in it; in any other it is there a
        whole number of times, the same everywhere.
        """
        ranks = self._workers * (self._workers + 1) // 2
        times = step * ranks if self._exact else float(model[0] / self._pattern[0])
        wrong = np.flatnonzero(model != self._pattern * np.float32(times))
        if wrong.size or times != round(times):
            first = wrong[0] if wrong.size else 0
            raise ArithmeticError(
                f"the model after step {step} is {model[first]} instead of "
                f"{self._pattern[first] * times} at place {first}, and wrong at {wrong.size} of "
                f"{model.size} places"
            )


class ServerNumbers:
    """A server's part of the model, and the gradients on their way into it."""

    def __init__(self, plan: JobPlan, shard: int) -> None:
        self._arithmetic = arithmetic(plan, shard)
        self._byte = plan.shards[shard][1]
        self._model = self._arithmetic.first_model()
        self._pieces: dict[int, bytes] = defaultdict(bytes)

    def take(self, message: Message) -> None:
        """A piece of a worker's gradient; with the last one, the model is updated."""
        assert message.content is not None
        self._pieces[message.source] += bytes(message.content)
        if len(self._pieces[message.source]) >= self._byte:
            whole = self._pieces.pop(message.source)
            self._model = self._arithmetic.updated(self._model, as_numbers(memoryview(whole)))

    def model_bytes(self) -> memoryview:
        return padded(self._model, self._byte)


class Lessons:
    """What a worker learns from its servers and pushes to them, shard by shard."""

    def __init__(self, plan: JobPlan, rank: int) -> None:
        self._rank = rank
        self._first = plan.workers
        self._bytes = [length for _, length in plan.shards]
        self._arithmetic = [arithmetic(plan, shard) for shard in range(plan.servers)]
        self._steps = [0] * plan.servers
        self._gradients = [memoryview(b"")] * plan.servers  # what of it has not been pushed

    def learn(self, message: Message) -> None:
        """A server's part of the model: checked, and turned into a gradient."""
        assert message.content is not None
        shard = message.source - self._first
        model = as_numbers(message.content)
        self._arithmetic[shard].check(model, self._steps[shard])
        self._steps[shard] += 1
        gradient = self._arithmetic[shard].gradient(self._rank, model)
        self._gradients[shard] = padded(gradient, self._bytes[shard])

    def next_bytes(self, server: int, byte: int) -> memoryview:
        shard = server - self._first
        left = self._gradients[shard]
        self._gradients[shard] = left[byte:]
        return left[:byte]


def as_numbers(content: memoryview) -> Numbers:
    """The whole numbers in some bytes."""
    return np.frombuffer(content[: len(content) // 4 * 4], np.float32)


def padded(numbers: Numbers, byte: int) -> memoryview:
    """The bytes of numbers, as many as the message has."""
    return memoryview(numbers.tobytes().ljust(byte, b"\0")[:byte])
