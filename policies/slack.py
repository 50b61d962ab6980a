"""Training gives way while it can afford to: the rule of both versions of slack-aware.

A worker sends low and keeps asking: if everything that I still have to send left now, among the
flows, would each layer's gradient be there when the next forward pass wants it, or late by no more
than I tolerate? While the answer is yes there is slack, and waiting costs nothing. When it is no,
the worker leaves the low band until there is slack again. Wanted times count from the start of the
iteration and not from stalls since, so one that is behind has less slack. docs/slack-aware.md
compares this rule with others.
"""

from collections.abc import Iterator, Sequence

from basics.options import Option
from policies.account import Account
from policies.steering import Decision, Gradient, Sight

PATIENT = "low"
# Of an iteration: what training is asked to pay. Below 1 % is what the thesis calls green.
TOLERANCE = 0.01
TOLERANCE_OPTION = Option("how late training may be, of an iteration", 0, 1, TOLERANCE, step=None)
# Hysteresis, of an iteration: it gives way again when it is behind by this much less.
RELEASE = 0.005
# Of an iteration: how often it looks at most while nothing else happens.
SHORTEST_LOOK = 0.002
# Weight of the last transfer in the mean rate among flows.
FRESH = 0.1
# Of that mean: what it counts on. Just in time by the mean would be late every other time.
SURE = 0.5


class SlackRule:
    """For one worker; `pressed` is the band in which it sends without slack.

    One that `stays` does not go down when it has all that it waited for: the next of its ring may
    still wait for what it has on the wire. With an `account` what iterations cost decides on which
    part of the mean rate it counts, and what nothing can hurry is excused.
    """

    def __init__(
        self,
        iteration_ns: int,
        tolerance: float,
        pressed: str,
        *,
        stays: bool = False,
        account: bool = False,
    ) -> None:
        self._stays = stays
        self._tolerance_ns = tolerance * iteration_ns
        self.account = Account(self._tolerance_ns) if account else None
        self._release_ns = RELEASE * iteration_ns
        self._shortest_ns = SHORTEST_LOOK * iteration_ns
        self._pressed_band = pressed
        self.band = PATIENT
        self._pressed_all_along = False
        self._beside = False  # the flows, in all of this iteration
        self._best: float | None = None  # rate, in bytes of gradient per ns
        self._pressed: float | None = None  # mean rate of what was sent among flows

    @property
    def rate(self) -> float:
        """What it counts on among flows: a part of what it got there; before that, of the best."""
        sure = SURE if self.account is None else self.account.sure
        return sure * (self._pressed or self._best or float("inf"))

    def learn(self, byte: int, took_ns: int) -> None:
        rate = byte / max(1, took_ns)
        self._best = max(self._best or rate, rate)
        if self._pressed_all_along:
            self._pressed = rate + (1 - FRESH) * ((self._pressed or rate) - rate)
        self._pressed_all_along = self.band != PATIENT

    def iterated(self, waited_ns: int) -> None:
        if self.account is not None:
            self.account.iterated(waited_ns, beside=self._beside)
        self._beside = self.band != PATIENT

    def decide(self, sight: Sight) -> Decision:
        if not sight.underway and not sight.others:
            if not self._stays:
                self._move(PATIENT)
            return Decision(self.band)
        if self.account is not None and not self.account.left:
            self._move(self._pressed_band)
            return Decision(self.band)
        best = self._best if self.account is not None else None
        spare_ns = self._tolerance_ns + slack_ns(sight, self.rate, best)
        enough_ns = self._release_ns if self.band != PATIENT else 0
        self._move(PATIENT if spare_ns > enough_ns else self._pressed_band)
        if self.band != PATIENT:
            return Decision(self.band)
        # Slack lasts at least this long, even if nothing is sent meanwhile.
        wait_ns = max(spare_ns, self._shortest_ns)
        return Decision(self.band, sight.now_ns + round(wait_ns))

    def _move(self, band: str) -> None:
        self._pressed_all_along = self._pressed_all_along and band != PATIENT
        self._beside = self._beside and band != PATIENT
        self.band = band


def slack_ns(sight: Sight, rate: float, best: float | None = None) -> float:
    """By how much every gradient is there before it is due, if all of them travel at this rate.

    If a best rate is said, the time of one that is not made yet is excused at that rate: nothing
    that is sent now can hurry it.
    """
    clock_ns = sight.now_ns + sight.underway_byte / rate
    spare_ns = [gradient.due_ns - clock_ns for gradient in sight.underway]
    for gradient, there_ns in sent_in_turn(sight.others, clock_ns, rate):
        own_ns = 0.0
        if best is not None and gradient.ready_ns > sight.now_ns:
            own_ns = gradient.byte / best
        spare_ns.append(gradient.due_ns - there_ns + own_ns)
    return min(spare_ns)


def sent_in_turn(
    gradients: Sequence[Gradient], clock_ns: float, rate: float
) -> Iterator[tuple[Gradient, float]]:
    """When each is there: one at a time, of those that are ready the first in their order."""
    left = list(gradients)
    while left:
        at = next((at for at, one in enumerate(left) if one.ready_ns <= clock_ns), None)
        if at is None:
            clock_ns = min(one.ready_ns for one in left)
            continue
        sent = left.pop(at)
        clock_ns += sent.byte / rate
        yield sent, clock_ns
