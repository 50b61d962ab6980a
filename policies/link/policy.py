"""What a link policy is: a rule that gives every port a discipline, and what files may tell it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from basics.options import Options, Value, Values, keywords
from basics.units import format_time, multiplied
from policies.link.discipline import Demotion, Discipline
from policies.link.port import Port, ServerPort
from policies.steering import Steering

PERIOD = "period"  # the option of every policy that acts


@dataclass(frozen=True)
class Situation:
    """What a policy that acts during a run gets to know, at each of its turns."""

    time_ns: int = 0
    # What a host's servers have left of each job's broadcast, and what all servers have of it.
    remaining_byte: Mapping[str, int] = field(default_factory=dict)
    everywhere_byte: Mapping[str, int] = field(default_factory=dict)


START = Situation()
ANY_PORT = Port("any", rate_bps=10**9, queue_packets=1000)


@dataclass(frozen=True)
class LinkPolicy:
    """A rule for who waits at a port.

    `discipline` gives a port its discipline: it is called with the port, and with what the options
    are, by keyword. `flows` and `training` say which class each kind of traffic is put into unless
    the experiment file says otherwise. `steer` makes the rule that moves a worker of a training job
    between bands during the run, from the compute time of its iterations and the options.

    A policy that acts has the option `period`: that often, `discipline` is called anew, with the
    situation as its second argument, and may put servers into other classes; nothing else of what
    it gives may change. One that `watches` is told what broadcasts have left.
    """

    name: str
    title: str
    description: str
    flows: str
    training: str
    discipline: Callable[..., Discipline]
    options: Options = field(default_factory=dict)
    chosen: Values = field(default_factory=dict)  # what a file says; the rest is by default
    steer: Callable[..., Steering] | None = None
    acts: bool = False
    watches: bool = False

    def told(self, chosen: Values) -> "LinkPolicy":
        """This policy with some of its options chosen."""
        return replace(self, chosen=dict(chosen))

    def plain(self) -> dict[str, Any]:
        """Name and options, for another process; `policies.link.rebuilt` reads it."""
        return {"policy": self.name, "options": dict(self.chosen)}

    @property
    def described(self) -> str:
        """The description, with the period that this experiment gives it."""
        period = f" (period: {format_time(self.period_ns)})" if self.period_ns else ""
        return self.description + period

    @property
    def _keywords(self) -> dict[str, Value]:
        return keywords(self.options, self.chosen)

    def discipline_at(self, port: Port, situation: Situation = START) -> Discipline:
        known = (port, situation) if self.acts else (port,)
        return self.discipline(*known, **self._keywords)

    @property
    def tells_jobs_apart(self) -> bool:
        """Whether it has classes for single jobs, or for their servers."""
        one = (ServerPort("job", 1, 1),)
        port = replace(ANY_PORT, servers=one, pushed_to=one, jobs=one)
        return any(kind.by_server for kind in self.discipline_at(port).classes)

    @cached_property
    def bands(self) -> tuple[str, ...]:
        """The classes that jobs and flows can be put into, from first served to last."""
        return tuple(one.name for one in self.discipline_at(ANY_PORT).band_classes)

    def demotions_from(self, band: str, scale: float) -> tuple[Demotion, ...]:
        """When a flow of this band changes it, where flows are so many times as long as real ones.

        A policy counts in bytes of real flows: a threshold between small and large ones stays there
        if all of them are scaled down.
        """
        whole = self.discipline_at(ANY_PORT).demotions_from(band)
        return tuple(replace(one, after_byte=_scaled(one.after_byte, scale)) for one in whole)

    @property
    def kernel_marks(self) -> bool:
        """Whether the kernels of hosts demote flows, and senders do not."""
        return self.discipline_at(ANY_PORT).kernel_marks

    @property
    def period_ns(self) -> int:
        """From turn to turn; 0: it does nothing during a run."""
        return int(self._keywords[f"{PERIOD}_ns"]) if self.acts else 0

    @property
    def steering(self) -> Callable[[int], Steering] | None:
        """Makes the rule for a worker of a job with this compute time, in ns."""
        return None if self.steer is None else partial(self.steer, **self._keywords)

    def band_of(self, kind: str) -> str:
        """The default band of "flows" or "training"."""
        return self.flows if kind == "flows" else self.training


def _scaled(byte: int, scale: float) -> int:
    return max(1, multiplied(byte, scale))
