"""A worker of a training job: compute from the profile, needs and gives, and what happened.

How gradients are exchanged is the job's: by a collective among the workers (`Agreed`), or through
parameter servers (`Served`). How bytes travel is the world's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from policies.steering import Gradient, Sight, Steering
from workloads.compute import Iteration, Outlook, Trainee
from workloads.cores import Cores
from workloads.job_plan import JobPlan
from workloads.rank_records import Exchanged, RankRecords, Sink
from workloads.world import Message, World


class Follower(Protocol):
    """Who follows a rank from iteration to iteration."""

    def iterated(self, rank: "Rank", over: Iteration) -> None: ...

    def rested(self, rank: "Rank") -> None:
        """It has made its steps, and all that it gave is back."""


class Rank(ABC):
    cores: Cores | None = None  # of its host, where tasks share them
    watcher: "Follower | None" = None  # of a job that others suspend and move

    def __init__(
        self,
        plan: JobPlan,
        number: int,
        world: World,
        sink: Sink,
        *,
        missing: Collection[int] = (),
        steering: Callable[[int], Steering] | None = None,
    ) -> None:
        self.plan = plan
        self.number = number
        self.priority = plan.priority
        self.late_ns: list[int] = []
        self._world = world
        self._records = RankRecords(sink, plan.name, number)
        self._trainee = Trainee(
            plan.stretches,
            steps=plan.steps,
            first=plan.first_iteration,
            missing=missing,
            drawn_ns=partial(plan.drawn_ns, number),
            every_ns=plan.every_ns,
        )
        self._last_layer = len(plan.layers) - 1
        self._ready_ns: dict[int, int] = {}
        self._unneeded: list[Exchanged] = []  # their need is not yet known
        self._steering = steering(self._trainee.iteration_ns) if steering else None
        self._band: str | None = None  # that the rule wants, once it has been asked
        self._look_ns: int | None = None

    # What an exchange is

    @abstractmethod
    def exchange(self, layers: tuple[int, ...]) -> None:
        """The gradients of these layers are ready; `exchanged` is called when they are back."""

    @abstractmethod
    def underway(self) -> tuple[int, ...]:
        """The layers whose gradients are being sent."""

    @abstractmethod
    def left_byte(self) -> int:
        """What is left of them to be exchanged."""

    @abstractmethod
    def message_arrived(self, message: Message) -> None: ...

    def told(self, source: int, numbers: tuple[int, ...]) -> None:
        raise NotImplementedError(f"{self.plan.name}: nobody tells its workers anything")

    # Compute

    @property
    def resting(self) -> bool:
        """All its steps are made."""
        return self._trainee.resting

    def begin(self) -> None:
        self._trainee.start(self.plan.start_ns)
        self._await_compute()
        self._rest_if_quiet(self.plan.start_ns)  # it was asked to before it began

    def _await_compute(self) -> None:
        running = self._trainee.running
        if running is None:
            return
        if self.cores is None:
            self._world.at(running.end_ns, partial(self._compute_done, running.end_ns))
        else:
            length_ns = running.end_ns - running.start_ns
            self.cores.compute(running.start_ns, length_ns, self._compute_done)

    def _compute_done(self, end_ns: int) -> None:
        now_ns = self._world.now_ns()
        done = self._trainee.ended(end_ns)
        late_ns = now_ns - done.end_ns
        self.late_ns.append(late_ns)
        self._records.compute(done, late_ns)
        if self._last_layer in done.stretch.gives:
            self.write_transfers()  # the forward pass is over: every need is known
        gives = self._trainee.compute_done()
        self._await_compute()
        self._write_iterations()
        if gives:
            self._ready_ns.update(dict.fromkeys(gives, now_ns))
            self.exchange(gives)

    def exchanged(self, done: Sequence[Exchanged], layers: Collection[int], now_ns: int) -> None:
        """These are back, and with them all of these layers; whoever waited for them goes on."""
        self._unneeded += done
        self.arrived(layers, now_ns)

    def noted(self, done: Exchanged) -> None:
        """This is back, and nobody can go on because of it alone."""
        self._unneeded.append(done)

    def arrived(self, layers: Collection[int], now_ns: int) -> None:
        waited = self._trainee.running is None
        self._trainee.gradients_arrived(layers, now_ns)
        if waited:
            self._await_compute()
            self._write_iterations()
        self._rest_if_quiet(now_ns)

    def _rest_if_quiet(self, now_ns: int) -> None:
        if self.watcher is not None and self._trainee.quiet:
            # Later, but now: what called this has not noted yet that the exchange is over.
            self._world.at(now_ns, partial(self.watcher.rested, self))

    # What others may ask of it between two iterations

    @property
    def next_iteration(self) -> int:
        return self._trainee.next_iteration

    @property
    def quiet(self) -> bool:
        """It rests, and all that it gave is back."""
        return self._trainee.quiet

    def hold(self) -> None:
        """Begin no other iteration for now."""
        self._trainee.hold()

    def rest_before(self, iteration: int) -> None:
        """Rest there, not sooner and not later."""
        rested = self._trainee.resting
        self._trainee.rest_before(iteration, self._world.now_ns())
        if rested and not self._trainee.resting:
            self._await_compute()

    def shift(self, iteration: int, by_ns: int) -> None:
        self._trainee.shift(iteration, by_ns)

    # Bands

    def steer(self, left_byte: int) -> None:
        """Ask the policy's rule for a band, if it has one; so much is left of what is under way."""
        if self._steering is None:
            return
        decision = self._steering.decide(self._sight(left_byte))
        if decision.band != self._band:
            self._band = decision.band
            self.change_band(decision.band)
        if decision.look_ns is not None and decision.look_ns != self._look_ns:
            self._world.at(decision.look_ns, partial(self._look, decision.look_ns))
        self._look_ns = decision.look_ns

    def change_band(self, band: str) -> None:
        self.priority = self.plan.bands.index(band)
        self._world.change_band(band)

    def _look(self, look_ns: int) -> None:
        if look_ns == self._look_ns:  # it has not changed its mind since
            self._look_ns = None
            self.steer(self.left_byte())

    def _sight(self, left_byte: int) -> Sight:
        now_ns = self._world.now_ns()
        sent = self.underway()
        gradients = self._in_order(self._trainee.outlook(now_ns))
        underway = [gradient for gradient in gradients if gradient.layer in sent]
        others = [gradient for gradient in gradients if gradient.layer not in sent]
        return Sight(now_ns, underway, left_byte, others)

    def _in_order(self, outlook: list[Outlook]) -> list[Gradient]:
        sizes = self.plan.layer_bytes
        made = [Gradient(one.layer, sizes[one.layer], one.ready_ns, one.due_ns) for one in outlook]
        # First come, first served: backward passes end with layer 0.
        ranks = self.plan.ranks_in(self.number, self._trainee.exchanging)
        return made[::-1] if ranks is None else sorted(made, key=lambda one: ranks[one.layer])

    # Records

    def _write_iterations(self) -> None:
        for over in self._trainee.finished:
            self._records.iteration(over)
            if self._steering is not None:
                paced_ns = max(over.compute_ns, self.plan.every_ns)
                self._steering.iterated(max(0, over.end_ns - over.start_ns - paced_ns))
            if self.watcher is not None:
                self.watcher.iterated(self, over)
        self._trainee.finished.clear()

    def write_transfers(self) -> None:
        """Write the transfers whose need is known by now, or never will be."""
        wanted_ns = self._trainee.wanted_ns
        for done in self._unneeded:
            if len(done.layers) == 1:  # a part: there are thousands
                self._records.transfer(done, wanted_ns.get(done.layers[0]))
                continue
            needs = [wanted_ns[layer] for layer in done.layers if layer in wanted_ns]
            self._records.transfer(done, min(needs) if needs else None)
        self._unneeded.clear()
