"""What a training job does, as pure state machines: no sockets, no sleeping, no clock.

`Trainee` is one worker's compute: forward and backward passes over the layers of a profile.
`Coordinator` agrees on what is sent next, as Horovod's rank 0 does. The live workers and the
fluid engine drive the same two classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from workloads.profiles import Layer


@dataclass(frozen=True)
class Compute:
    """One layer's turn on the (pretended) processor."""

    iteration: int
    phase: str  # "forward" or "backward"
    layer: int
    start_ns: int
    end_ns: int  # when it is due to end


@dataclass(frozen=True)
class Iteration:
    """Start to start: it ends when the next one may begin."""

    iteration: int
    start_ns: int
    end_ns: int
    compute_ns: int

    @property
    def wait_ns(self) -> int:
        return self.end_ns - self.start_ns - self.compute_ns


@dataclass(frozen=True)
class Outlook:
    """A gradient of this worker that has not been exchanged yet."""

    layer: int
    ready_ns: int  # when it was, or will be, computed
    due_ns: int  # when it is wanted if the iteration takes no longer than its compute


class Trainee:
    """One worker: computes layer by layer and waits for gradients where it must.

    With a barrier, a forward pass starts only when every gradient of the last iteration has
    arrived; without, layer i waits for the gradient of layer i alone.

    Deadlines follow from deadlines, not from when the caller noticed them, so a late wake-up
    delays nobody but itself.
    """

    def __init__(self, layers: Sequence[Layer], barrier: bool) -> None:
        self._layers = layers
        self._barrier = barrier
        forward_ns = [layer.forward_ns for layer in layers]
        self._forward_ns = [0, *accumulate(forward_ns)]  # until each layer of a forward pass
        self.iteration_ns = sum(forward_ns) + sum(layer.backward_ns for layer in layers)
        self._missing: set[int] = set()  # gradients of the last iteration still on their way
        self._iteration = 0
        self._started_ns = 0
        self._compute_ns = 0
        self._next_layer = 0  # of the forward pass, while waiting
        self.running: Compute | None = None
        self.exchanging = 0  # the iteration whose gradients are ready or on their way
        self.finished: list[Iteration] = []
        self.wanted_ns: dict[int, int] = {}  # layer -> when its gradient was first wanted

    def start(self, now_ns: int) -> None:
        self._started_ns = now_ns
        self._run("forward", 0, now_ns)

    def compute_done(self) -> int | None:
        """The running layer has reached its end. Returns the layer whose gradient is now ready."""
        done = self.running
        assert done is not None
        self.running = None
        self._compute_ns += done.end_ns - done.start_ns
        last = len(self._layers) - 1
        if done.phase == "forward":
            if done.layer < last:
                self._forward(done.layer + 1, done.end_ns)
            else:
                self._run("backward", last, done.end_ns)
            return None
        self._missing.add(done.layer)
        self.exchanging = done.iteration
        if done.layer > 0:
            self._run("backward", done.layer - 1, done.end_ns)
        else:
            self.wanted_ns = {}
            self._forward(0, done.end_ns)
        return done.layer

    def gradients_arrived(self, layers: Sequence[int], now_ns: int) -> None:
        """These layers' gradients are complete; a forward pass that waited for them goes on."""
        self._missing.difference_update(layers)
        if self.running is None and not self._waits_for(self._next_layer):
            self._enter(self._next_layer, now_ns)

    @property
    def wants(self) -> bool:
        """Whether a forward pass is going on, or held up behind its first layer."""
        if self.running is None:
            return self._next_layer > 0
        return self.running.phase == "forward"

    def outlook(self, now_ns: int) -> list[Outlook]:
        """Gradients on their way or to come, by layer, as far as this worker's own clock tells.

        They are due as if nothing had held this iteration up since it started.
        """
        wanted_ns = self._started_ns + (0 if self.wants else self.iteration_ns)
        ready_ns = dict.fromkeys(self._missing, now_ns)
        if self.running is not None and self.running.phase == "backward":
            ready_ns |= self._made_ns(self.running.layer, self.running.end_ns)
        return [self._expected(layer, ready_ns[layer], wanted_ns) for layer in sorted(ready_ns)]

    def _made_ns(self, layer: int, end_ns: int) -> dict[int, int]:
        """When each gradient is made, from this layer, at this time, on."""
        made = {layer: end_ns}
        for below in range(layer - 1, -1, -1):
            end_ns += self._layers[below].backward_ns
            made[below] = end_ns
        return made

    def _expected(self, layer: int, ready_ns: int, wanted_ns: int) -> Outlook:
        after_ns = 0 if self._barrier else self._forward_ns[layer]
        return Outlook(layer, ready_ns, wanted_ns + after_ns)

    def _waits_for(self, layer: int) -> bool:
        return bool(self._missing) if self._barrier else layer in self._missing

    def _forward(self, layer: int, now_ns: int) -> None:
        self._next_layer = layer
        if self._barrier and layer == 0:
            self.wanted_ns = dict.fromkeys(range(len(self._layers)), now_ns)
        else:
            self.wanted_ns.setdefault(layer, now_ns)
        if not self._waits_for(layer):
            self._enter(layer, now_ns)

    def _enter(self, layer: int, now_ns: int) -> None:
        if layer == 0:
            self.finished.append(
                Iteration(self._iteration, self._started_ns, now_ns, self._compute_ns)
            )
            self._iteration += 1
            self._started_ns = now_ns
            self._compute_ns = 0
        self._run("forward", layer, now_ns)

    def _run(self, phase: str, layer: int, now_ns: int) -> None:
        cost = self._layers[layer]
        length_ns = cost.forward_ns if phase == "forward" else cost.backward_ns
        self.running = Compute(self._iteration, phase, layer, now_ns, now_ns + length_ns)


class Coordinator:
    """Decides which gradients go next: those ready on every worker, in the job's order, fused.

    One transfer is in flight at a time: ask for the next when the last one is done.
    """

    def __init__(
        self, layer_bytes: Sequence[int], workers: int, fusion_byte: int, order: str
    ) -> None:
        self._bytes = layer_bytes
        self._workers = workers
        self._fusion_byte = fusion_byte
        self._by_layer = order == "layer"
        self._ready_on: dict[int, int] = {}
        self._eligible: list[int] = []

    def gradient_ready(self, layer: int) -> None:
        """One more worker has this layer's gradient."""
        count = self._ready_on.get(layer, 0) + 1
        if count < self._workers:
            self._ready_on[layer] = count
            return
        self._ready_on.pop(layer, None)
        self._eligible.append(layer)
        if self._by_layer:
            self._eligible.sort()

    def next_transfer(self) -> list[int]:
        """The layers of the next transfer; empty if nothing is ready everywhere."""
        chosen: list[int] = []
        total = 0
        for layer in self._eligible:
            if chosen and total + self._bytes[layer] > self._fusion_byte:
                break
            chosen.append(layer)
            total += self._bytes[layer]
        del self._eligible[: len(chosen)]
        return chosen
