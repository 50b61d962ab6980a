"""What a parameter-server job does, as pure state machines: no sockets, no sleeping, no clock.

`Server` holds a part of the model and decides who gets it when: all at once when the last gradient
is there (synchronous), each at once (async), or as soon as nobody is too far behind (bounded
staleness). `Pupil` is one worker: it asks for the model, computes, pushes its gradients, and waits
for the model again. The live tasks and the fluid engine drive the same two classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.profiles import Layer
from workloads.ring import spans
from workloads.training import Compute, Iteration

REQUEST_BYTE = 64  # what a worker sends to ask for the first model
NUMBER_BYTE = 4  # float32: no number is cut in two


def shards(total_byte: int, servers: int) -> list[tuple[int, int]]:
    """The part of the model at each server: (start, length) in bytes, as even as numbers allow."""
    numbers, rest = divmod(total_byte, NUMBER_BYTE)
    parts = [
        (start * NUMBER_BYTE, length * NUMBER_BYTE) for start, length in spans(numbers, servers)
    ]
    start, length = parts[-1]
    return [*parts[:-1], (start, length + rest)]


@dataclass(frozen=True)
class Push:
    """Bytes for one server."""

    server: int
    bytes: int


@dataclass(frozen=True)
class Stretch:
    """Compute without a push in between, and what is pushed at its end."""

    phase: str  # "forward" or "backward"
    first_layer: int
    layers: int
    length_ns: int
    pushes: tuple[Push, ...]

    @property
    def bytes(self) -> int:
        return sum(push.bytes for push in self.pushes)


def stretches(layers: Sequence[Layer], servers: int, fusion_byte: int) -> list[Stretch]:
    """An iteration: the forward pass, then the backward pass in groups of layers pushed together.

    A group holds as many layers as fit into the fusion buffer, and at least one.
    """
    forward_ns = sum(layer.forward_ns for layer in layers)
    found = [Stretch("forward", 0, len(layers), forward_ns, ())]
    parts = shards(sum(layer.bytes for layer in layers), servers)
    last, end_byte = len(layers), sum(layer.bytes for layer in layers)
    while last:
        first = last - 1
        size_byte = layers[first].bytes
        while first and size_byte + layers[first - 1].bytes <= fusion_byte:
            first -= 1
            size_byte += layers[first].bytes
        start_byte = end_byte - size_byte
        pushes = tuple(
            Push(server, overlap)
            for server, (start, length) in enumerate(parts)
            if (overlap := min(end_byte, start + length) - max(start_byte, start)) > 0
        )
        length_ns = sum(layer.backward_ns for layer in layers[first:last])
        found.append(Stretch("backward", first, last - first, length_ns, pushes))
        last, end_byte = first, start_byte
    return found


class Pupil:
    """One worker: computes from the profile whenever it has the whole model.

    Deadlines follow from deadlines, not from when the caller noticed them, so a late wake-up
    delays nobody but itself.
    """

    def __init__(
        self, layers: Sequence[Layer], servers: int, fusion_byte: int, steps: int | None = None
    ) -> None:
        self._stretches = stretches(layers, servers, fusion_byte)
        self._servers = servers
        self._steps = steps
        self._missing: set[int] = set()  # servers whose part of the model is not here yet
        self._iteration = -1  # the first model is still to come
        self._started_ns = 0
        self._next = 0  # stretch
        self.running: Compute | None = None
        self.finished: list[Iteration] = []

    @property
    def done(self) -> bool:
        """All steps are made, and the model of the last one is here."""
        return self._iteration == self._steps

    @property
    def stretch(self) -> Stretch:
        """What is being computed."""
        return self._stretches[self._next]

    def start(self) -> list[Push]:
        """Ask every server for its part of the model."""
        self._missing = set(range(self._servers))
        return [Push(server, REQUEST_BYTE) for server in range(self._servers)]

    def model_arrived(self, server: int, now_ns: int) -> None:
        """One server's part is here; with the last one, the next iteration begins."""
        self._missing.discard(server)
        if self.running is None and not self._missing:
            self._enter(now_ns)

    def compute_done(self) -> list[Push]:
        """The running stretch has reached its end. Returns what is to be pushed now."""
        done = self.running
        assert done is not None
        pushes = list(self.stretch.pushes)
        self._next += 1
        if self._next < len(self._stretches):
            self._compute(done.end_ns)
            return pushes
        self.running = None  # the last push is on its way, so some part of the model is too
        return pushes

    def _enter(self, now_ns: int) -> None:
        if self._iteration >= 0:
            compute_ns = sum(stretch.length_ns for stretch in self._stretches)
            self.finished.append(Iteration(self._iteration, self._started_ns, now_ns, compute_ns))
        self._iteration += 1
        self._started_ns = now_ns
        if self.done:
            return
        self._missing = set(range(self._servers))
        self._next = 0
        self._compute(now_ns)

    def _compute(self, now_ns: int) -> None:
        stretch = self.stretch
        end_ns = now_ns + stretch.length_ns
        self.running = Compute(self._iteration, stretch.phase, stretch.first_layer, now_ns, end_ns)


@dataclass(frozen=True)
class Passage:
    """One worker's way through one barrier: its gradient was there, and it got the next model."""

    iteration: int
    worker: int
    enter_ns: int
    leave_ns: int


class Server:
    """One server: decides which workers get the model when a gradient has arrived.

    A worker that is `stale` steps ahead of the slowest waits for it: 0 is synchronous training,
    None waits for nobody.
    """

    def __init__(self, workers: int, shard_byte: int, stale: int | None) -> None:
        self._shard_byte = shard_byte
        self._stale = stale
        self._steps = [-1] * workers  # made by each; asking for the first model makes it 0
        self._waiting: dict[int, int] = {}  # worker -> since when, in the order of arrival
        self.passages: list[Passage] = []

    def due_byte(self, worker: int) -> int:
        """How long the next message of a worker is: a request, then a gradient each time."""
        return self._shard_byte if self._steps[worker] >= 0 else REQUEST_BYTE

    def arrived(self, worker: int, now_ns: int) -> list[int]:
        """A request, or a whole gradient, is here. Returns who is sent the model now."""
        assert worker not in self._waiting, "a worker pushes again only after its next model"
        self._steps[worker] += 1
        self._waiting[worker] = now_ns
        slowest = min(self._steps)
        released = [
            waiting
            for waiting in self._waiting
            if self._stale is None or self._steps[waiting] <= slowest + self._stale
        ]
        for waiting in released:
            enter_ns = self._waiting.pop(waiting)
            if self._steps[waiting] > 0:
                self.passages.append(Passage(self._steps[waiting] - 1, waiting, enter_ns, now_ns))
        return released
