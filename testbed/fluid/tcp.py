"""What TCP does to a rate, as far as a simulation without packets can know it (compiled).

Each rule stands for something that the virtual engine's kernel (CUBIC) was seen to do;
docs/fluid.md says what each one is worth.
"""

from numba import njit

PAYLOAD = 1448.0  # of a frame of 1,514 bytes, as the shaper counts it
FRAME = 1514.0
SMALL_FRAME = 74.0  # SYN and its answer
FIRST_WINDOW = 10 * PAYLOAD
# Acknowledgements: a frame of 66 bytes for two of data. They take it from the opposite direction.
ACK_SHARE = 66.0 / (2 * FRAME)
# A stream's window opens by about half a frame a round trip, as measured on rings at 10 Gbit/s.
GROWTH = 0.53 * PAYLOAD
# CUBIC without a loss yet: a twentieth of what is acknowledged.
EAGER_GROWTH = 0.05
# A receiver opens its window only by round trips that it can measure, and its clock ticks in ms.
RECEIVER_TICK_NS = 1.0e6
RECEIVER_FIRST = 95 * PAYLOAD  # what a receiver takes until then
BACKOFF = 0.7
# Of its own rate: so much of a stream to or from a server waits in its host's queue at most.
OWN_QUEUE_NS = 1.2e6
FREE_BYTE = 2 * PAYLOAD  # frames that a shaper lets pass at once after a pause
RESTART_NS = 2.0e8  # idle for longer: the window is halved for every such time
# HyStart: its ACK train may last half a round trip, plus half of four largest packets' time.
HYSTART_LEAST = 16 * PAYLOAD
HYSTART_BURST = 4 * 65536.0
HYSTART_MOST_NS = 1.0e6


@njit(cache=True)
def stream_window(window: float, sent: float) -> float:
    """A stream's window after `sent` bytes of congestion avoidance."""
    return window + GROWTH * sent / window


@njit(cache=True)
def flow_window(window: float, sent: float, rate: float, at_home: bool) -> float:
    """A flow's: it grows eagerly, if its receiver lets it."""
    grown = window + EAGER_GROWTH * sent
    if window < 2.0 * rate * RECEIVER_TICK_NS or (at_home and window <= RECEIVER_FIRST):
        return max(window, min(grown, RECEIVER_FIRST))
    return grown


@njit(cache=True)
def train_limit(window: float, rtt: float, least_rtt: float) -> float:
    """How long an ACK train may be before HyStart ends slow start."""
    spread = min(HYSTART_MOST_NS, HYSTART_BURST * rtt / (2.0 * window))
    return 0.5 * (least_rtt + spread)


@njit(cache=True)
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


@njit(cache=True)
def rested(window: float, idle_ns: float) -> float:
    """The window after a pause: halved for every timeout that passed, not below the first one."""
    while idle_ns > RESTART_NS and window > FIRST_WINDOW:
        window = max(FIRST_WINDOW, 0.5 * window)
        idle_ns -= RESTART_NS
    return window
