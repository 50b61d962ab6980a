"""What parameter servers and their workers calculate in test mode, where numbers are real.

`Counting` is what a run checks itself with: every worker's gradient is a known pattern, so the
model after each step is known too. A test plugs real training in here instead.
"""

import numpy as np

from workloads.line import Numbers
from workloads.ring import sample_numbers


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
