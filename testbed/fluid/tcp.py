"""What TCP does to a rate, as far as a simulation without packets can know it (compiled).

Each rule stands for something that the virtual engine's kernel (CUBIC) was seen to do;
docs/fluid.md says what each one is worth.
"""

import numpy as np

from testbed.fluid.inner import inner

PAYLOAD = 1448.0  # of a frame of 1,514 bytes, as the shaper counts it
FRAME = 1514.0
SMALL_FRAME = 74.0  # SYN and its answer
FIRST_WINDOW = 10 * PAYLOAD
# Acknowledgements: a frame of 66 bytes for two of data. They take it from the opposite direction.
ACK_SHARE = 66.0 / (2 * FRAME)
# CUBIC: what is kept of a window after a loss. Before the first one it grows by a twentieth of what
# is acknowledged; then, for many seconds in networks as short as these, as Reno with that factor
# would on average: 3 (1 - 0.7) / (1 + 0.7) of a frame a round trip.
BACKOFF = 0.7
EAGER_GROWTH = 0.05
FRIENDLY_GROWTH = 3 * (1 - BACKOFF) / (1 + BACKOFF) * PAYLOAD
RENO_BACKOFF = 0.5  # and a frame a round trip; its slow start has no HyStart, and ends with a loss
# MLTCP: Reno that grows 0.25 + 1.75 x so much as fast, of an iteration that is so far. What is less
# than a first window between two pauses is a message, not an iteration.
MLTCP_INTERCEPT, MLTCP_SLOPE = 0.25, 1.75
LEAST_ITERATION = FIRST_WINDOW
EAGER, FRIENDLY, RENO = range(3)  # how a window grows: CUBIC's before and after a loss, Reno's
LEAST_WINDOW = 2 * PAYLOAD
# A receiver opens its window by the time from an acknowledgement to the data that answer it, once
# that is so long that its clock can measure it, which ticks in milliseconds. Then it gives twice
# what came in such a time, which is always more than is asked.
MEASURABLE_NS = 1.0e6
PAUSE_NS = 2.0e6  # of a sender, which its receiver takes for a round trip
RECEIVER_FIRST = 95 * PAYLOAD  # what it takes until then
FREE_BYTE = 2 * PAYLOAD  # frames that a shaper lets pass at once after a pause
# HyStart: its ACK train may last half a round trip, plus half of four largest packets' time.
HYSTART_LEAST = 16 * PAYLOAD
HYSTART_BURST = 4 * 65536.0
HYSTART_MOST_NS = 1.0e6

# A queue that is shorter than what the kernel's receivers give to one connection (docs/virtual.md,
# "What holds a flow") is filled by a connection alone: there packets are lost as a rule.
ALONE = 124 * PAYLOAD
# Timers ring at ticks of the kernel's clock, and long ones less exactly: by eight ticks from 63 on,
# by 64 from 504 on, and so on.
TICK_NS = 4.0e6
EXACT_TICKS, COARSER = 63.0, 8.0
SYN_NS = 1.0e9
SYN_ALIKE = 4  # after so many SYNs again, each waits twice as long as the one before
RTO_MIN_NS = 200_000_000  # idle for longer, a window is halved for every such time
RTO_MOST_NS = 1.2e11
# To report a loss that nothing behind it does: a probe of the tail, or the time after which what is
# only reordered would have come. Two round trips more for the former.
PROBE_NS = 2.0e6
REPORTING = 3  # packets that arrive behind a lost one have it sent again


@inner
def rings_at(now: float, timeout: float) -> float:
    """When a timer set now rings: whole ticks, and the one that is under way besides."""
    ticks = np.ceil(timeout / TICK_NS)
    grain = TICK_NS
    while ticks * TICK_NS >= EXACT_TICKS * grain:
        grain *= COARSER
    due = (np.floor(now / TICK_NS) + ticks) * TICK_NS
    return (np.floor(due / grain) + 1.0) * grain


@inner
def syn_timeout(before: int) -> float:
    """How long a SYN waits for its answer, after so many in vain."""
    return min(RTO_MOST_NS, SYN_NS * 2.0 ** max(0, before - SYN_ALIKE))


@inner
def data_timeout(rtt: float, least: float, before: int) -> float:
    """How long an acknowledgement is waited for, after so many timeouts in a row."""
    return min(RTO_MOST_NS, (rtt + least) * 2.0 ** min(before, 20))


@inner
def grown(window: float, sent: float, law: int) -> float:
    """A window after `sent` bytes of congestion avoidance."""
    if law == EAGER:
        return window + EAGER_GROWTH * sent
    return window + (PAYLOAD if law == RENO else FRIENDLY_GROWTH) * sent / window


@inner
def mltcp_gain(share: float) -> float:
    """How many times as fast as Reno's a window grows, of an iteration of which a share is sent."""
    return MLTCP_INTERCEPT + MLTCP_SLOPE * min(1.0, share)


@inner
def mltcp_share(gain: float) -> float:
    """The other way round."""
    return min(1.0, (gain - MLTCP_INTERCEPT) / MLTCP_SLOPE)


@inner
def reduced(window: float, law: int) -> float:
    """What is left of a window after a loss."""
    return max(LEAST_WINDOW, (RENO_BACKOFF if law == RENO else BACKOFF) * window)


@inner
def train_limit(window: float, rtt: float, least_rtt: float) -> float:
    """How long an ACK train may be before HyStart ends slow start."""
    spread = min(HYSTART_MOST_NS, HYSTART_BURST * rtt / (2.0 * window))
    return 0.5 * (least_rtt + spread)


@inner
def slow_start_end(window: float, line: float, rtt: float, least_rtt: float) -> float:
    """The window at which HyStart ends slow start in this round; 0 if it goes on.

    ACKs come at the rate `line` for as long as this round's window lasts, and each byte that they
    acknowledge widens the window by one.
    """
    train = window / line
    if 2.0 * window < HYSTART_LEAST or train < train_limit(2.0 * window, rtt, least_rtt):
        return 0.0
    low, high = 0.0, train
    for _ in range(20):
        middle = 0.5 * (low + high)
        if middle < train_limit(window + line * middle, rtt, least_rtt):
            low = middle
        else:
            high = middle
    return max(HYSTART_LEAST, window + line * high)


@inner
def rested(window: float, idle_ns: float, timeout_ns: float) -> float:
    """The window after a pause: halved for every timeout that passed, not below the first one."""
    while idle_ns > timeout_ns and window > FIRST_WINDOW:
        window = max(FIRST_WINDOW, 0.5 * window)
        idle_ns -= timeout_ns
    return window
