"""Which GPUs a live cluster's workers have, by number: those of one pack have the same ones."""

from itertools import count


class LiveGpus:
    """What a daemon has to know of them, where a placement may pack; else nothing."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._of: dict[int, list[int]] = {}  # by job: of each worker, from its begin to its end
        self._numbers = count()

    def share(self, job: int, other: int) -> None:
        self._of[job] = self._of[other]

    def begun(self, job: int, workers: int) -> dict[str, list[int]]:
        """What is said of a job that begins."""
        if not self._shared:
            return {}
        if job not in self._of:
            self._of[job] = [next(self._numbers) for _ in range(workers)]
        return {"gpus": self._of[job]}

    def left(self, job: int) -> None:
        self._of.pop(job, None)
