"""One rank of a real DDP job that is checkpointed and moved, for tests/test_torch_checkpoint.py.

python -m tests.moved_ranks ORDERS. Prints JSON. A rank that gives its checkpoint goes on as if
nothing had happened: it is the training that never rested.
"""

import json
import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from workloads import checkpoint_line, sockets, torch_checkpoint
from workloads.torch_checkpoint import PlacedSampler

LIMIT_S = 60
BATCH, SAMPLES, WIDTH = 4, 60, 37


def model() -> torch.nn.Module:
    """Random numbers (dropout), buffers (batch norm), and several buckets."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 211),
        torch.nn.BatchNorm1d(211),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(211, 97),
        torch.nn.Tanh(),
        torch.nn.Linear(97, 1),
    )


class Job:
    """One rank of it, between any two iterations."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.model = model()
        self.trained = DistributedDataParallel(self.model, bucket_cap_mb=0.02)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.sampler = PlacedSampler(SAMPLES, BATCH, rank, ranks, seed=7)
        draw = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(SAMPLES, WIDTH, generator=draw)
        self.wanted = torch.randn(SAMPLES, 1, generator=draw)
        torch.manual_seed(100 + rank)  # every rank drops other numbers
        self.iteration = 0

    def backward(self, batch: list[int]) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(
            self.trained(self.inputs[batch]), self.wanted[batch]
        ).backward()

    def train(self, until: int) -> None:
        while self.iteration < until:
            self.backward(self.sampler.next_batch())
            self.optimizer.step()
            self.iteration += 1

    def checkpoint(self) -> bytes:
        return torch_checkpoint.saved(self.model, self.optimizer, self.sampler, self.iteration)

    def resume(self, data: bytes, *, rehearsed: bool = True) -> None:
        rehearse = (lambda: self.backward(list(range(BATCH)))) if rehearsed else (lambda: None)
        self.iteration = torch_checkpoint.resumed(
            data, self.model, self.optimizer, self.sampler, rehearse
        )

    def digest(self) -> str:
        return torch_checkpoint.digest(self.model, self.optimizer, self.sampler)


def gives(orders: dict[str, Any]) -> dict[str, Any]:
    """So many iterations, a checkpoint to another host, and the rest here."""
    job = Job(orders["rank"], orders["ranks"])
    job.train(orders["rest_before"])
    data = job.checkpoint()
    with sockets.connect(orders["peer"], orders["line"], orders["tos"]) as line:
        line.settimeout(LIMIT_S)
        checkpoint_line.give(line, data)
    job.train(orders["until"])
    return {"bytes": len(data), "digest": job.digest(), "iteration": job.iteration}


def takes(orders: dict[str, Any], data: bytes) -> dict[str, Any]:
    """The rest, elsewhere; once with a rehearsal and once without."""
    told: dict[str, Any] = {"bytes": len(data)}
    for name, rehearsed in (("unrehearsed", False), ("digest", True)):
        job = Job(orders["rank"], orders["ranks"])
        job.resume(data, rehearsed=rehearsed)
        told["begins_at"] = job.iteration
        job.train(orders["until"])
        told[name] = job.digest()
    return {**told, "iteration": job.iteration}


def received(orders: dict[str, Any]) -> bytes:
    with sockets.listener(orders["own"], orders["line"], orders["tos"]) as door:
        print("listening", flush=True)
        door.settimeout(LIMIT_S)
        line, _ = door.accept()
    with line:
        line.settimeout(LIMIT_S)
        return checkpoint_line.take(line)


def main(orders: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = orders["device"]
    data = received(orders) if orders["takes"] else None
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{orders['first']}:{orders['port']}",
        rank=orders["rank"],
        world_size=orders["ranks"],
        timeout=timedelta(seconds=LIMIT_S),
    )
    return gives(orders) if data is None else takes(orders, data)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    sys.stdin.read()  # a rank that leaves early would look like a death to the others
    os._exit(0)
