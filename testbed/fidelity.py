"""The fidelity verdict: did the machine keep up with what it was asked to play?

Pure: from what was measured during a run to `faithful`, `doubtful` or `broken`, with reasons.
The bounds stand here, with why, and are the same for every run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Lateness is in experiment time. 1 ms is a tenth of the queueing delay of a full 1,000-packet
# port at 1 Gbit/s; 20 ms would move a flow to another phase of a training iteration.
_LATE = (1_000_000, 20_000_000)


@dataclass(frozen=True)
class Bound:
    doubtful: float
    broken: float
    over: bool
    sentence: str

    def judge(self, value: float) -> int:
        """0 fine, 1 doubtful, 2 broken."""
        if self.over:
            return (value > self.doubtful) + (value > self.broken)
        return (value < self.doubtful) + (value < self.broken)


BOUNDS: dict[str, Bound] = {
    "shaped_rate_ratio": Bound(
        0.93, 0.75, False, "a shaped link carried only {value:.0%} of what headers allow"
    ),
    "sleep_late_p99_ns": Bound(*_LATE, True, "1 % of the compute sleeps were late by {ms:.2f} ms"),
    "flow_late_p99_ns": Bound(*_LATE, True, "1 % of the flows started late by {ms:.2f} ms"),
    "cpu_headroom_share": Bound(
        0.1, 0.01, False, "the run itself left only {value:.0%} of the processors unused"
    ),
    "cpu_steal_share": Bound(
        0.05, 0.3, True, "other machines took {value:.0%} of this one's processors"
    ),
}
VERDICTS = ("faithful", "doubtful", "broken")
SIMULATED = "simulated"  # nothing was measured, so nothing can be judged: neither good nor bad


def verdict(measured: Mapping[str, float | None]) -> tuple[str, list[str]]:
    """The worst of all bounds, and a sentence for each that is not fine."""
    worst = 0
    reasons = []
    for name, bound in BOUNDS.items():
        value = measured.get(name)
        if value is None:
            continue
        found = bound.judge(value)
        if found:
            reasons.append(bound.sentence.format(value=value, ms=value / 1e6))
        worst = max(worst, found)
    return VERDICTS[worst], reasons
