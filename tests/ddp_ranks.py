"""One rank of a real DDP job over loopback, for tests/test_torch_transfer.py. Prints JSON.

python -m tests.ddp_ranks PLAY RANK RANKS PORT FOLDER TRANSFER
"""

import copy
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from workloads.loop import Clock
from workloads.stack_worker import Pacer, Recorder, StackConfig, Transfer
from workloads.torch_worker import DdpStack

LAYERS = (1, 300, 5_000, 40_001, 7, 20_000)
BUCKET_BYTE = 100_000
STEPS = 4


class Polynomial(torch.nn.Module):
    """Real arithmetic, with gradients of which no two ranks have the same."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(count, generator=draw)) for count in LAYERS
        )

    def forward(self, seed: torch.Tensor) -> torch.Tensor:
        draw = torch.Generator().manual_seed(int(seed))
        summed = torch.zeros(1)
        for weight in self.weights:
            summed = summed + (torch.randn(weight.numel(), generator=draw) * weight**2).sum()
        return summed


class Noting(Recorder):
    """Remembers transfers beyond their iteration."""

    def __init__(self, settings: StackConfig) -> None:
        super().__init__(settings)
        self.seen: list[Transfer] = []

    def transfer(self, done: Transfer) -> None:
        super().transfer(done)
        self.seen.append(done)

    def told(self) -> list[Any]:
        """In the order in which they were begun."""
        ordered = sorted(self.seen, key=lambda one: one.start_ns)
        return [[one.layers, one.bytes] for one in ordered]


def connected(rank: int, ranks: int, port: int, folder: str, transfer: Any) -> Any:
    settings = StackConfig(
        job="job",
        rank=rank,
        addresses=["127.0.0.1"] * ranks,
        device="lo",
        port=port,
        priority=0,
        layers=[(count * 4, 0, 0) for count in LAYERS],
        fusion_byte=BUCKET_BYTE,
        check=False,
        dilation=1.0,
        duration_ns=10**12,
        journal=f"{folder}/{rank}.jsonl",
        transfer=transfer,
    )
    model, recorder = Polynomial(), Noting(settings)
    stack = DdpStack(settings)
    stack.listen()
    stack.connect(model)  # type: ignore[arg-type]
    stack.begin(Clock(time.monotonic_ns()), recorder, Pacer(settings, recorder))
    return stack, model, recorder


def trains(rank: int, ranks: int, *rest: Any) -> dict[str, Any]:
    """Side by side with a DDP that has no hook: after each step, every bit."""
    start = Polynomial()
    stack, model, recorder = connected(rank, ranks, *rest)
    plain = copy.deepcopy(start)
    reference = DistributedDataParallel(plain, bucket_cap_mb=BUCKET_BYTE / 2**20)
    differing = 0
    for step in range(STEPS):
        for trained, weights in ((stack._model, model), (reference, plain)):
            optimizer = torch.optim.SGD(weights.parameters(), lr=0.01)
            optimizer.zero_grad()
            trained(torch.tensor(step * ranks + rank)).sum().backward()
            optimizer.step()
        for mine, its in zip(model.parameters(), plain.parameters(), strict=True):
            assert mine.grad is not None
            assert its.grad is not None
            differing += int((mine.grad != its.grad).sum() + (mine != its).sum())
    return {"differing": differing, "sliced": sliced(rank), "transfers": recorder.told()}


def sliced(rank: int) -> int:
    """Of 1,000 sums, those that three all-reduces of plain slices give other bits than one does."""
    whole = torch.randn(1_000, generator=torch.Generator().manual_seed(rank))
    slices = whole.clone()
    dist.all_reduce(whole)
    for one in slices.chunk(3):
        dist.all_reduce(one)
    return int((slices != whole).sum())


def overtakes(rank: int, *rest: Any) -> dict[str, Any]:
    """A large bucket of the last layer, then a small one of the first, which one rank has late."""
    stack, _, recorder = connected(rank, *rest)
    large = stack._sender.send(torch.ones(400_000), (5,), last=False)
    if rank == 1:
        time.sleep(0.3)
    small = stack._sender.send(torch.ones(1_000), (0,), last=True)
    sums = {float(one.wait().sum()) for one in (large, small)}
    return {"sums": sorted(sums), "transfers": recorder.told()}


def loses_one(rank: int, ranks: int, *rest: Any) -> dict[str, Any]:
    """The last rank dies before it has sent anything."""
    stack, _, _ = connected(rank, ranks, *rest)
    if rank == ranks - 1:
        time.sleep(0.3)
        os._exit(0)
    for _ in range(2):
        try:
            stack._sender.send(torch.ones(1_000), (0,), last=True).wait()
        except Exception as error:
            said = str(error)
        else:
            return {"said": None}
    return {"said": said}


PLAYS: dict[str, Callable[..., dict[str, Any]]] = {
    "trains": trains,
    "overtakes": overtakes,
    "loses_one": loses_one,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    play, rank, ranks, port, folder, transfer = sys.argv[1:]
    told = PLAYS[play](int(rank), int(ranks), int(port), folder, json.loads(transfer))
    print(json.dumps(told), flush=True)
    sys.stdin.read()  # a rank that leaves early would look like a death to the others
    os._exit(0)
