"""Real training over parameter servers: the same weights as in a single process."""

import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.journal import Journal
from workloads.line import Numbers
from workloads.loop import Clock, Loop
from workloads.ps_live import Job, LiveServer, LiveWorker
from workloads.sockets import TaskError

WORKERS, STEPS, RATE = 3, 6, 0.1
JOB = Job(
    name="job", port=0, tos=0, priority=0, servers=["server"], workers=["worker"] * WORKERS,
    layers=[(1_600_000, 0, 0), (1_604_000, 0, 0)], fusion_byte=2_000_000, start_ns=0,
    steps=STEPS, staleness=0, check=True,
)  # fmt: skip


class Here:
    """A host for all tasks of a job: one loop, no process."""

    def __init__(self, folder: Path) -> None:
        import time

        self.loop = Loop(Clock(time.monotonic_ns()))
        self.journal = Journal(folder / "journal.jsonl")

    def fail(self, job: Job, why: str) -> None:
        raise TaskError(why)


def play(job: Job, here: Here) -> None:
    """A whole job over real sockets."""
    pairs = [[socket.socketpair() for _ in job.workers] for _ in job.servers]
    servers = [
        LiveServer(here, job, shard, [ours for ours, _ in row]) for shard, row in enumerate(pairs)
    ]
    workers = [
        LiveWorker(here, job, rank, [row[rank][1] for row in pairs])
        for rank in range(len(job.workers))
    ]
    for worker in workers:
        here.loop.at(0, worker.begin)
    here.loop.at(60_000_000_000, here.loop.stop)  # never, if it works

    def look() -> None:
        if all(worker.done for worker in workers):
            here.loop.stop()
        else:
            here.loop.at(here.loop.clock.now_ns() + 1_000_000, look)

    here.loop.at(0, look)
    here.loop.run()
    assert all(worker.done for worker in workers)
    for task in (*servers, *workers):
        task.close()


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("staleness", [0, 2, None])
def test_sums_are_right_in_every_mode(tmp_path: Path, servers: int, staleness: int | None) -> None:
    play(replace(JOB, servers=["server"] * servers, staleness=staleness), Here(tmp_path))


def test_a_wrong_sum_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "workloads.arithmetic.Counting.updated", lambda self, model, gradient: model
    )
    with pytest.raises(ArithmeticError, match="the model after step 1 is"):
        play(JOB, Here(tmp_path))


@pytest.mark.torch
def test_synchronous_training_gives_the_weights_of_a_single_process(tmp_path: Path) -> None:
    import torch
    from torch import nn
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    first = parameters_to_vector(network.parameters()).detach().numpy().copy()
    samples, targets = torch.randn(4 * WORKERS, 8), torch.randint(4, (4 * WORKERS,))
    latest: dict[str, Numbers] = {}

    def gradient(model: Numbers, part: slice) -> Numbers:
        vector_to_parameters(torch.from_numpy(model.copy()), network.parameters())
        loss = nn.functional.cross_entropy(network(samples[part]), targets[part])
        found = torch.autograd.grad(loss, list(network.parameters()))
        flat: Numbers = torch.cat([one.flatten() for one in found]).numpy()
        return flat

    class Training:
        def first_model(self) -> Numbers:
            return first

        def updated(self, model: Numbers, pushed: Numbers) -> Numbers:
            return model - np.float32(RATE / WORKERS) * pushed

        def gradient(self, rank: int, model: Numbers) -> Numbers:
            return gradient(model, slice(4 * rank, 4 * rank + 4))

        def check(self, model: Numbers, step: int) -> None:
            latest["model"] = model.copy()

    class TorchJob(Job):
        def arithmetic(self, server: int) -> Any:
            return Training()

    play(TorchJob(**{**asdict(JOB), "layers": [(4 * first.size, 0, 0)]}), Here(tmp_path))

    alone = first
    for _ in range(STEPS):
        alone = alone - np.float32(RATE) * gradient(alone, slice(None))
    assert np.abs(alone - first).max() > 0.01  # it learnt something
    np.testing.assert_allclose(latest["model"], alone, rtol=1e-4, atol=1e-6)
