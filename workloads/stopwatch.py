"""Timing one training iteration layer by layer, from hooks on a torch network.

A layer is a module with parameters of its own. An iteration is cut into pieces that belong to
exactly one layer each, so that the pieces add up to the iteration:

- Forward, a layer's piece goes from its start to the start of the next layer: activations and
  pooling that follow it are its own. The first piece starts with the iteration, the last one ends
  with the loss.
- Backward, a layer's piece ends at the instant when its last gradient is ready, and starts when
  the layer before it in that order was ready. This is what a communication library sees: work
  after a layer's gradients are ready can never delay them.

The end of a layer's backward is taken from its parameters (post-accumulate hooks) and not from a
full backward hook: for a layer whose input needs no gradient, such as the first, that one fires
before the layer has done anything. Full backward pre-hooks tell the layers' own work from what lies
between them, but they put an autograd function around every layer (22 % of a ResNet-32's iteration,
where the two others cost 6 %), so they are set only where this is asked (`inside`).

The clock is the processor time of this thread, so that whatever else the machine does is not
counted; it is the whole time only if torch computes in this one thread (`set_num_threads(1)`).
Nothing here imports torch: the network that is handed in brings it along.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

Moment = tuple[int, int]  # the layer's index, and when


@dataclass(frozen=True)
class Lap:
    """One iteration; the layers in the order in which they ran forward."""

    order: tuple[int, ...]  # indexes into Stopwatch.layers
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    whole_ns: int
    inside_ns: int | None  # in the layers themselves, not in activations, pooling, loss and Python


class Stopwatch:
    """A context manager: the hooks are on the network while it is entered."""

    def __init__(
        self, network: Any, inside: bool = False, now: Callable[[], int] = time.thread_time_ns
    ) -> None:
        self.layers = {
            name: layer
            for name, layer in network.named_modules()
            if list(layer.parameters(recurse=False))
        }
        self._inside = inside
        self._now = now
        self._hooks: list[Any] = []
        self._started: list[Moment] = []
        self._ended: list[Moment] = []
        self._backward_started: dict[int, int] = {}
        self._ready: dict[int, int] = {}

    def __enter__(self) -> Self:
        for index, layer in enumerate(self.layers.values()):
            self._hooks.append(layer.register_forward_pre_hook(self._noting(self._started, index)))
            ready = self._keeping(self._ready, index)
            self._hooks += [
                parameter.register_post_accumulate_grad_hook(ready)
                for parameter in layer.parameters(recurse=False)
            ]
            if self._inside:
                ended = self._noting(self._ended, index)
                backward_started = self._keeping(self._backward_started, index)
                self._hooks.append(layer.register_forward_hook(ended))
                self._hooks.append(layer.register_full_backward_pre_hook(backward_started))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _noting(self, moments: list[Moment], index: int) -> Callable[..., None]:
        def hook(*_: object) -> None:
            moments.append((index, self._now()))

        return hook

    def _keeping(self, moments: dict[int, int], index: int) -> Callable[..., None]:
        def hook(*_: object) -> None:
            moments[index] = self._now()  # the last of several parameters decides

        return hook

    def lap(self, forward: Callable[[], Any]) -> Lap:
        """Run `forward`, which returns the loss, and its backward pass; time both.

        Raises ValueError if a layer does not run exactly once, because its time would be
        meaningless.
        """
        for moments in (self._started, self._ended, self._backward_started, self._ready):
            moments.clear()
        with warnings.catch_warnings():
            # torch warns that a full backward hook on the first layer fires early: known, see above
            warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
            began = self._now()
            loss = forward()
            turned = self._now()
            loss.backward()
            finished = self._now()
        self._check()
        order = tuple(index for index, _ in self._started)
        forward_ns = dict(pieces_from_starts(self._started, began, turned))
        ready = sorted(self._ready.items(), key=lambda moment: moment[1])
        backward_ns = dict(pieces_to_ends(ready, turned, finished))
        return Lap(
            order=order,
            forward_ns=tuple(forward_ns[index] for index in order),
            backward_ns=tuple(backward_ns[index] for index in order),
            whole_ns=finished - began,
            inside_ns=self._inside_ns() if self._inside else None,
        )

    def _inside_ns(self) -> int:
        forward = sum(when for _, when in self._ended) - sum(when for _, when in self._started)
        return forward + sum(
            when - self._backward_started[index] for index, when in self._ready.items()
        )

    def _check(self) -> None:
        runs = [index for index, _ in self._started]
        for index, name in enumerate(self.layers):
            if runs.count(index) != 1:
                raise ValueError(
                    f"layer {name} ran {runs.count(index)} times in a forward pass; every layer "
                    "with parameters must run once"
                )
            if index not in self._ready:
                raise ValueError(f"layer {name} got no gradient; every layer must be trained")


def pieces_from_starts(starts: Sequence[Moment], began: int, ended: int) -> list[Moment]:
    """Cut [began, ended] at every start but the first; each piece goes to the one that starts it.

    >>> pieces_from_starts([(7, 12), (8, 15)], 10, 20)
    [(7, 5), (8, 5)]
    """
    cuts = [began, *(when for _, when in starts[1:]), ended]
    return [(who, cuts[n + 1] - cuts[n]) for n, (who, _) in enumerate(starts)]


def pieces_to_ends(ends: Sequence[Moment], began: int, ended: int) -> list[Moment]:
    """Cut [began, ended] at every end but the last; each piece goes to the one that ends it.

    >>> pieces_to_ends([(8, 12), (7, 18)], 10, 20)
    [(8, 2), (7, 8)]
    """
    cuts = [began, *(when for _, when in ends[:-1]), ended]
    return [(who, cuts[n + 1] - cuts[n]) for n, (who, _) in enumerate(ends)]
