"""A checkpoint of real training: all that the next iteration depends on, as bytes.

Model, optimiser, sampler and torch's random numbers, and which iteration is next. It is written by
torch, and read as data alone (`weights_only`), since it comes over a network:
`workloads/checkpoint_line.py` carries it from host to host.

Training that was resumed has the bits of training that never rested. For that DDP has to sum in the
same order: it lays gradients into buckets by the model's order for the first backward pass and by
the order in which they became ready for all others, and where a number lies in a bucket says in
which order Gloo adds the ranks' contributions, which matters from three ranks on. So a resumed job
rehearses one pass, whose numbers are forgotten, before the state is put in place.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

FIELDS = {"model", "optimizer", "sampler", "random", "iteration"}


class Stateful(Protocol):
    """A sampler that can say where it is, and go there."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class PlacedSampler:
    """One rank's samples without end: every epoch in another order, a batch at a time.

    torch's DistributedSampler draws the same orders, but does not know how far it is.
    """

    def __init__(self, samples: int, batch: int, rank: int, ranks: int, seed: int) -> None:
        if samples < batch * ranks:
            raise ValueError(
                f"{samples} samples are less than a batch of {batch} for {ranks} ranks"
            )
        self._samples, self._batch = samples, batch
        self._rank, self._ranks, self._seed = rank, ranks, seed
        self._epoch = self._at = 0
        self._order = self._drawn()

    def _drawn(self) -> list[int]:
        """The rank's samples of this epoch; as many on every rank."""
        draw = torch.Generator().manual_seed(self._seed + self._epoch)
        whole: list[int] = torch.randperm(self._samples, generator=draw).tolist()
        return whole[self._rank : self._samples // self._ranks * self._ranks : self._ranks]

    def next_batch(self) -> list[int]:
        if self._at + self._batch > len(self._order):
            self._epoch, self._at = self._epoch + 1, 0
            self._order = self._drawn()
        found = self._order[self._at : self._at + self._batch]
        self._at += self._batch
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self._epoch, "at": self._at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epoch, self._at = state["epoch"], state["at"]
        self._order = self._drawn()


def saved(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, sampler: Stateful, iteration: int
) -> bytes:
    """The state between two iterations; `iteration` is the next one. Training may go on."""
    file = io.BytesIO()
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "sampler": sampler.state_dict(),
            "random": torch.get_rng_state(),
            "iteration": iteration,
        },
        file,
    )
    return file.getvalue()


def resumed(
    data: bytes,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    sampler: Stateful,
    rehearse: Callable[[], object] = lambda: None,
) -> int:
    """Put the state in place; returns the next iteration.

    `rehearse` is a forward and backward pass of all ranks through DDP, on any input.
    """
    state = torch.load(io.BytesIO(data), weights_only=True)
    if not isinstance(state, dict) or set(state) != FIELDS:
        raise ValueError(f"this is no checkpoint: it must have {', '.join(sorted(FIELDS))}")
    rehearse()
    optimizer.zero_grad()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    sampler.load_state_dict(state["sampler"])
    torch.set_rng_state(state["random"])
    return int(state["iteration"])


def digest(model: torch.nn.Module, optimizer: torch.optim.Optimizer, sampler: Stateful) -> str:
    """Equal if, and only if, training would go on alike: every bit of the state counts."""
    summed = hashlib.sha256()
    states = model.state_dict(), optimizer.state_dict(), sampler.state_dict()
    for name, value in _leaves([*states, torch.get_rng_state()], "state"):
        summed.update(f"{name}\n".encode())
        if isinstance(value, torch.Tensor):
            whole = value.detach().cpu().contiguous()
            summed.update(f"{whole.dtype} {tuple(whole.shape)}\n".encode())
            summed.update(whole.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            summed.update(f"{value!r}\n".encode())
    return summed.hexdigest()


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What stands in nested dictionaries and lists, each with its way there."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{at}")
    else:
        yield name, value
