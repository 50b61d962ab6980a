"""Real training over parameter servers: the same weights as in a single process."""

import socket
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workloads.counting import Numbers
from workloads.job_plan import JobPlan
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.profiles import Layer
from workloads.rank import Rank
from workloads.ranks import make_rank
from workloads.socket_world import SocketWorld
from workloads.sockets import TaskError

WORKERS, STEPS, RATE = 3, 6, 0.1
PLAN = JobPlan(
    name="job", aggregation="parameter-server", workers=WORKERS, servers=1,
    layers=(Layer(1_600_000, 0, 0), Layer(1_604_000, 0, 0)), fusion_byte=2_000_000,
    barrier=True, start_ns=0, steps=STEPS, staleness=0, check=True, bands=("all",), band="all",
)  # fmt: skip


def play(plan: JobPlan, folder: Path) -> None:
    """A whole job over real sockets: one loop, no process."""
    loop = Loop(Clock(time.monotonic_ns()))
    journal = Journal(folder / "journal.jsonl")
    pairs = {pair: socket.socketpair() for pair in plan.data_pairs}

    def fail(why: str) -> None:
        raise TaskError(why)

    worlds, ranks = [], []
    for number in range(plan.ranks):
        data = {b: ours for (a, b), (ours, _) in pairs.items() if a == number}
        data |= {a: theirs for (a, b), (_, theirs) in pairs.items() if b == number}
        world = SocketWorld(plan, number, loop, data, {}, fail)
        rank = make_rank(plan, number, world, journal)
        world.rank = rank
        worlds.append(world)
        ranks.append(rank)
    workers = [rank for rank in ranks if isinstance(rank, Rank)]
    for worker in workers:
        loop.at(0, worker.begin)
    loop.at(60_000_000_000, loop.stop)  # never, if it works

    def look() -> None:
        if all(worker.resting for worker in workers):
            loop.stop()
        else:
            loop.at(loop.clock.now_ns() + 1_000_000, look)

    loop.at(0, look)
    loop.run()
    assert all(worker.resting for worker in workers)
    for world in worlds:
        world.close()


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("staleness", [0, 2, None])
def test_sums_are_right_in_every_mode(tmp_path: Path, servers: int, staleness: int | None) -> None:
    play(replace(PLAN, servers=servers, staleness=staleness), tmp_path)


def test_a_wrong_sum_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.counting.Counting.updated", lambda self, model, gradient: model)
    with pytest.raises(ArithmeticError, match="the model after step 1 is"):
        play(PLAN, tmp_path)


@pytest.mark.torch
def test_synchronous_training_gives_the_weights_of_a_single_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr("workloads.counting.arithmetic", lambda plan, shard: Training())
    play(replace(PLAN, layers=(Layer(4 * first.size, 0, 0),)), tmp_path)

    alone = first
    for _ in range(STEPS):
        alone = alone - np.float32(RATE) * gradient(alone, slice(None))
    assert np.abs(alone - first).max() > 0.01  # it learnt something
    np.testing.assert_allclose(latest["model"], alone, rtol=1e-4, atol=1e-6)
