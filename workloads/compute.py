"""What a worker computes, as a pure state machine: no sockets, no sleeping, no clock.

An iteration is a row of stretches: compute that nothing interrupts, what it needs before it may
begin and which gradients there are when it ends. A `Trainee` goes through them, waits where
something is missing, and knows when what will be wanted. Every engine drives the same class.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from workloads.profiles import Layer

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class Stretch:
    """Compute without an event in between, over some layers from `first_layer` on."""

    phase: str
    first_layer: int
    layers: int
    length_ns: int
    needs: frozenset[int] = frozenset()  # layers whose last gradients must have been exchanged
    gives: tuple[int, ...] = ()  # layers whose gradients are ready at its end


def layer_by_layer(layers: Sequence[Layer], *, barrier: bool) -> list[Stretch]:
    """Each layer's turn is a stretch.

    With a barrier, a forward pass starts only when every gradient of the last iteration has been
    exchanged; without, layer i waits for the gradient of layer i alone.
    """
    every = frozenset(range(len(layers)))
    nothing: frozenset[int] = frozenset()

    def needs(at: int) -> frozenset[int]:
        if barrier:
            return every if at == 0 else nothing
        return frozenset({at})

    forward = [
        Stretch(FORWARD, at, 1, layer.forward_ns, needs=needs(at))
        for at, layer in enumerate(layers)
    ]
    backward = [
        Stretch(BACKWARD, at, 1, layer.backward_ns, gives=(at,)) for at, layer in enumerate(layers)
    ]
    return forward + backward[::-1]


def forward_passes(layers: Sequence[Layer], *, barrier: bool) -> list[Stretch]:
    """No backward pass: after the last layer's turn, every layer is wanted anew."""
    *before, last = layer_by_layer(layers, barrier=barrier)[: len(layers)]
    return [*before, replace(last, gives=tuple(range(len(layers))))]


def group_by_group(layers: Sequence[Layer], fusion_byte: int) -> list[Stretch]:
    """The forward pass as a whole, then the backward pass in groups of layers sent together.

    A group holds as many layers as fit into the fusion buffer, and at least one.
    """
    every = range(len(layers))
    forward_ns = sum(layer.forward_ns for layer in layers)
    found = [Stretch(FORWARD, 0, len(layers), forward_ns, needs=frozenset(every))]
    last = len(layers)
    while last:
        first = last - 1
        size_byte = layers[first].bytes
        while first and size_byte + layers[first - 1].bytes <= fusion_byte:
            first -= 1
            size_byte += layers[first].bytes
        length_ns = sum(layer.backward_ns for layer in layers[first:last])
        group = tuple(every[first:last][::-1])
        found.append(Stretch(BACKWARD, first, last - first, length_ns, gives=group))
        last = first
    return found


class Compute(NamedTuple):
    """A stretch's turn on the (pretended) processor."""

    iteration: int
    stretch: Stretch
    start_ns: int
    end_ns: int  # when it is due to end


class Iteration(NamedTuple):
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
    """One worker: computes stretch by stretch and waits for gradients where it must.

    `missing`: what it has to get before its first iteration (the model, from its servers). It
    begins with iteration `first`, and rests before iteration `steps`. `drawn_ns` says how long the
    backward pass of an iteration takes, if not as long as its stretches; an iteration begins
    `every_ns` after the one before, or later.

    Deadlines follow from deadlines, not from when the caller noticed them, so a late wake-up
    delays nobody but itself.
    """

    def __init__(
        self,
        stretches: Sequence[Stretch],
        *,
        steps: int | None = None,
        first: int = 0,
        missing: Iterable[int] = (),
        drawn_ns: Callable[[int], int | None] = lambda iteration: None,
        every_ns: int = 0,
    ) -> None:
        self._stretches = stretches
        self._steps = self._limit = steps
        self._missing = set(missing)  # not exchanged yet
        self._drawn_ns = drawn_ns
        self._every_ns = every_ns
        self.iteration_ns = sum(stretch.length_ns for stretch in stretches)
        self._first_wanted = _first_wanted(stretches)
        self._after_ns = _needed_after_ns(stretches)
        self._at = 0  # the stretch that is running or waits
        self._first = first
        self._iteration = first - 1  # the first one has not begun
        self._shifts: list[tuple[int, int]] = []  # (from this iteration on, later by so much)
        self._started_ns = 0
        self._compute_ns = 0
        self.resting = False
        self.running: Compute | None = None
        self.exchanging = first  # the iteration whose gradients are ready or on their way
        self.finished: list[Iteration] = []
        self.wanted_ns: dict[int, int] = {}  # layer -> when its gradient was first wanted

    def start(self, now_ns: int) -> None:
        self._reach(0, now_ns)

    def ended(self, end_ns: int) -> Compute:
        """The running stretch took until then: later than due where tasks share cores."""
        assert self.running is not None
        if self.running.end_ns != end_ns:
            self.running = self.running._replace(end_ns=end_ns)
        return self.running

    def compute_done(self) -> tuple[int, ...]:
        """The running stretch has reached its end. Returns the layers whose gradients are ready."""
        done = self.running
        assert done is not None
        self.running = None
        self._compute_ns += done.end_ns - done.start_ns
        gives = done.stretch.gives
        if gives:
            self._missing.update(gives)
            self.exchanging = done.iteration
        after = self._at + 1
        if after == len(self._stretches):
            after = 0
            self.wanted_ns = {}
        self._reach(after, done.end_ns)
        return gives

    def gradients_arrived(self, layers: Collection[int], now_ns: int) -> None:
        """These have been exchanged; a stretch that waited for them goes on."""
        self._missing.difference_update(layers)
        if self.running is None and not self.resting:
            self._enter_if_ready(now_ns)

    # Where iterations end, others may step in

    @property
    def next_iteration(self) -> int:
        """The first one that has not begun."""
        return self._iteration + (0 if self.resting else 1)

    @property
    def quiet(self) -> bool:
        """It rests, and all that it gave is back."""
        return self.resting and not self._missing

    def hold(self) -> None:
        """Begin no other iteration until it is said before which one to rest."""
        self._steps = self.next_iteration

    def rest_before(self, iteration: int, now_ns: int) -> None:
        """Rest there and not later; if it has been held before another one, it goes on now."""
        assert iteration >= self.next_iteration, "it has begun that one"
        self._steps = iteration if self._limit is None else min(iteration, self._limit)
        if self.resting and self._iteration < self._steps:
            self.resting = False
            self._started_ns = start_ns = self._shifted(self._iteration, now_ns)
            end_ns = start_ns + self._stretches[0].length_ns
            self.running = Compute(self._iteration, self._stretches[0], start_ns, end_ns)

    def shift(self, iteration: int, by_ns: int) -> None:
        """Begin this iteration, or the first after it, later by so much."""
        self._shifts.append((iteration, by_ns))

    def _shifted(self, iteration: int, now_ns: int) -> int:
        """When this iteration begins if it could begin now."""
        due_ns = sum(by_ns for first, by_ns in self._shifts if first <= iteration)
        self._shifts = [one for one in self._shifts if one[0] > iteration]
        return now_ns + due_ns

    @property
    def wants(self) -> bool:
        """Whether a forward pass is going on, or held up behind its beginning."""
        if self.running is None:
            return self.resting or self._at > 0
        return self.running.stretch.phase == FORWARD

    def outlook(self, now_ns: int) -> list[Outlook]:
        """Gradients on their way or to come, by layer, as far as this worker's own clock tells.

        They are due as if nothing had held this iteration up since it started.
        """
        wanted_ns = self._started_ns + (0 if self.wants else self.iteration_ns)
        ready_ns = dict.fromkeys(self._missing, now_ns)
        if self.running is not None and self.running.stretch.phase == BACKWARD:
            end_ns = self.running.start_ns
            for stretch in self._stretches[self._at :]:
                end_ns += stretch.length_ns
                ready_ns.update(dict.fromkeys(stretch.gives, end_ns))
        return [
            Outlook(layer, ready_ns[layer], wanted_ns + self._after_ns[layer])
            for layer in sorted(ready_ns)
        ]

    def _reach(self, at: int, now_ns: int) -> None:
        """All before this stretch is done; it begins if nothing is missing."""
        self._at = at
        if wanted := self._first_wanted[at]:
            self.wanted_ns.update(dict.fromkeys(wanted, now_ns))
        self._enter_if_ready(now_ns)

    def _enter_if_ready(self, now_ns: int) -> None:
        stretch = self._stretches[self._at]
        if not self._missing.isdisjoint(stretch.needs):
            return
        if self._at == 0:
            if self._iteration >= self._first:
                now_ns = max(now_ns, self._started_ns + self._every_ns)
            if self._shifts and self._iteration + 1 != self._steps:
                now_ns = self._shifted(self._iteration + 1, now_ns)
            self._begin_iteration(now_ns)
            if self.resting:
                return
        drawn_ns = self._drawn_ns(self._iteration) if stretch.phase == BACKWARD else None
        end_ns = now_ns + (stretch.length_ns if drawn_ns is None else drawn_ns)
        self.running = Compute(self._iteration, stretch, now_ns, end_ns)

    def _begin_iteration(self, now_ns: int) -> None:
        if self._iteration >= self._first:
            over = Iteration(self._iteration, self._started_ns, now_ns, self._compute_ns)
            self.finished.append(over)
        self._iteration += 1
        self._started_ns = now_ns
        self._compute_ns = 0
        self.resting = self._iteration == self._steps


def _first_wanted(stretches: Iterable[Stretch]) -> list[frozenset[int]]:
    """Stretch by stretch, the layers that none before it needs."""
    found: list[frozenset[int]] = []
    before: set[int] = set()
    for stretch in stretches:
        found.append(stretch.needs - before)
        before |= stretch.needs
    return found


def _needed_after_ns(stretches: Iterable[Stretch]) -> dict[int, int]:
    """How long after an iteration's start each layer's gradient is needed, if nothing waits."""
    found: dict[int, int] = {}
    passed_ns = 0
    for stretch in stretches:
        for layer in stretch.needs:
            found.setdefault(layer, passed_ns)
        passed_ns += stretch.length_ns
    return found
