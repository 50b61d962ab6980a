"""A model in torch whose compute is replaced by its profile: real parameters, real gradients.

Each layer is one parameter tensor of the profile's size. Its forward and backward are an autograd
function that sleeps for the profile's time, so that gradients become ready when the profile says,
and the framework's own machinery sends them.

The numbers are real too: the loss is the squared distance of all weights from a target that differs
by worker and iteration, so the gradient is (weight - target), and SGD moves the weights to the
mean of the workers' targets. `reference` is the same in one process.
"""

import hashlib
from typing import Any

import torch

from workloads.stack_worker import Pacer

LEARNING_RATE = 0.125
TOLERANCE = 1e-4  # float32, sums in another order


class TimedLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, activation: Any, weight: Any, pacer: Pacer, layer: int) -> Any:
        ctx.save_for_backward(weight)
        ctx.pacer, ctx.layer = pacer, layer
        pacer.work("forward", layer)
        return activation.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (weight,) = ctx.saved_tensors
        made = torch.sub(weight, ctx.pacer.target).mul_(gradient)  # before the sleep: in its time
        ctx.pacer.work("backward", ctx.layer)
        return gradient, made, None, None


class TimedModel(torch.nn.Module):
    def __init__(self, layer_bytes: list[int], pacer: Pacer) -> None:
        super().__init__()
        self._pacer = pacer
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(first_weights(layer, count_of(size)))
            for layer, size in enumerate(layer_bytes)
        )

    def forward(self, activation: Any) -> Any:
        for layer, weight in enumerate(self.weights):
            activation = TimedLayer.apply(activation, weight, self._pacer, layer)
        return activation


def count_of(size_byte: int) -> int:
    """How many float32 numbers make a layer of this size, rounded up."""
    return -(-size_byte // 4)


def first_weights(layer: int, count: int) -> Any:
    """Different from place to place, so that a misplaced part shows."""
    return torch.arange(count, dtype=torch.float32).remainder_(97).add_(layer).div_(97)


def target(rank: int, iteration: int) -> float:
    return (rank + 1) * (1 + iteration % 7) / 64


def reference(layer: int, count: int, workers: int, iterations: int) -> Any:
    """The layer's weights after so many steps of one process that sees every worker's loss."""
    weights = first_weights(layer, count).double()
    for iteration in range(iterations):
        mean = sum(target(rank, iteration) for rank in range(workers)) / workers
        weights -= LEARNING_RATE * (weights - mean)
    return weights


def check(model: TimedModel, workers: int, iterations: int) -> str:
    """Compare with the reference; returns the digest of all weights, equal on all workers."""
    digest = hashlib.sha256()
    for layer, weight in enumerate(model.weights):
        found = weight.detach()
        expected = reference(layer, found.numel(), workers, iterations)
        off = (found.double() - expected).abs().max().item()
        if off > TOLERANCE:
            raise ArithmeticError(
                f"after {iterations} steps the weights of layer {layer} are off by {off:g} from "
                "those of a single process"
            )
        digest.update(found.numpy().tobytes())
    return digest.hexdigest()
