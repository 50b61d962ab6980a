"""What TCP does to a rate, as far as a simulation without packets can know it (compiled).

Each rule stands for something that the virtual engine's kernel (CUBIC) was seen to do;
docs/fluid.md says what each one is worth.
"""

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
LEAST_WINDOW = 2 * PAYLOAD
# A receiver opens its window by the time from an acknowledgement to the data that answer it, once
# that is so long that its clock can measure it, which ticks in milliseconds. Then it opens far: by
# all that it has read so far. (Not if the queue is at its sender's own port: seen, not explained.)
MEASURABLE_NS = 2.0e6
RECEIVER_FIRST = 95 * PAYLOAD  # what it takes until then
FREE_BYTE = 2 * PAYLOAD  # frames that a shaper lets pass at once after a pause
RESTART_NS = 2.0e8  # idle for longer: the window is halved for every such time
# HyStart: its ACK train may last half a round trip, plus half of four largest packets' time.
HYSTART_LEAST = 16 * PAYLOAD
HYSTART_BURST = 4 * 65536.0
HYSTART_MOST_NS = 1.0e6


@inner
def grown(window: float, sent: float, lost: bool) -> float:
    """A window after `sent` bytes of congestion avoidance."""
    return window + (FRIENDLY_GROWTH * sent / window if lost else EAGER_GROWTH * sent)


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
def rested(window: float, idle_ns: float) -> float:
    """The window after a pause: halved for every timeout that passed, not below the first one."""
    while idle_ns > RESTART_NS and window > FIRST_WINDOW:
        window = max(FIRST_WINDOW, 0.5 * window)
        idle_ns -= RESTART_NS
    return window
