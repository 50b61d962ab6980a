"""Training gives way while it can afford to, and shares with the flows when its slack runs out.

The queues are those of strict priority. A worker sends low and keeps asking: if everything I still
have to send left now at the rate that I get among flows, would each layer's gradient be there when
the next forward pass wants it? While the answer is yes there is slack, and waiting costs nothing.
When it is no, the worker sends in the flows' own band until there is slack again. Wanted times
follow from the start of the iteration and not from stalls since, so an iteration that is behind its
baseline has less slack. docs/slack-aware.md compares this rule with others.
"""

from dataclasses import dataclass, field

from policies import strict_priority
from policies.base import BAND_TOS, LinkPolicy, band_queues
from policies.steering import Decision, Sight

PATIENT, PRESSED = "low", "high"
# Of an iteration: what training is asked to pay. Below 1 % is what the thesis calls green.
TOLERANCE = 0.01
# Of the best rate seen: with one bulk flow at the tightest of the ring's links it gets half.
SHARE = 0.5
# Hysteresis, of an iteration: this much slack beyond the least before it gives way again.
RELEASE = 0.01
# Of an iteration: how often it looks at most while nothing else happens.
SHORTEST_LOOK = 0.002


@dataclass
class SlackAware:
    tolerance: float = TOLERANCE
    share: float = SHARE
    release: float = RELEASE
    band: str = PATIENT
    best_rate: float = field(default=float("inf"))  # bytes of gradient per ns; not known yet
    _seen: bool = False

    def learn(self, byte: int, took_ns: int) -> None:
        rate = byte / max(1, took_ns)
        self.best_rate = max(self.best_rate, rate) if self._seen else rate
        self._seen = True

    def decide(self, sight: Sight) -> Decision:
        spare_ns = slack_ns(sight, self.share * self.best_rate)
        if spare_ns is None:
            self.band = PATIENT
            return Decision(self.band)
        spare_ns += self.tolerance * sight.iteration_ns
        enough_ns = self.release * sight.iteration_ns if self.band == PRESSED else 0
        self.band = PATIENT if spare_ns > enough_ns else PRESSED
        if self.band == PRESSED:
            return Decision(self.band)
        # Slack lasts at least this long, even if nothing is sent meanwhile.
        wait_ns = max(spare_ns, SHORTEST_LOOK * sight.iteration_ns)
        return Decision(self.band, sight.now_ns + round(wait_ns))


def slack_ns(sight: Sight, rate: float) -> float | None:
    """By how much every gradient is there before it is due, if all of them travel at this rate.

    None if there is nothing to send. One transfer at a time, and of those that are ready the one
    that comes first in the worker's own order.
    """
    if not sight.underway and not sight.others:
        return None
    clock_ns = sight.now_ns + sight.underway_byte / rate
    least_ns = min((gradient.due_ns for gradient in sight.underway), default=float("inf"))
    least_ns -= clock_ns
    left = list(sight.others)
    while left:
        at = next((at for at, one in enumerate(left) if one.ready_ns <= clock_ns), None)
        if at is None:
            clock_ns = min(one.ready_ns for one in left)
            continue
        sent = left.pop(at)
        clock_ns += sent.byte / rate
        least_ns = min(least_ns, sent.due_ns - clock_ns)
    return least_ns


POLICY = LinkPolicy(
    name="slack-aware",
    title="Slack-aware",
    description="strict priority; training leaves the low queue while its slack has run out",
    bands=tuple(BAND_TOS),
    flows="high",
    training="low",
    commands=strict_priority.commands,
    queues=band_queues,
    steering=SlackAware,
)
