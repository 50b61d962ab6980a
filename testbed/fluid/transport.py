"""TCP as an experiment asks for it, in the arrays of a simulation."""

import numpy as np

from testbed.fluid import state, tcp
from testbed.spec.transport import Transport

CUBIC = Transport()


def settle_transport(
    counts: state.Integers, asked: Transport, limits_byte: list[float], marks: bool
) -> None:
    """For every connection that is to come. `marks`: they hold queues short, so nothing is lost."""
    counts[state.WINDOW] = asked.window_byte or 0
    counts[state.TIMERS] = not marks and min(limits_byte) < tcp.ALONE


def open_windows(some: state.Table, counts: state.Integers) -> None:
    """Connections that stand for the whole run begin as a flow does."""
    some["receive"] = counts[state.WINDOW] or tcp.RECEIVER_FIRST
    some["tuned"] = counts[state.WINDOW] == 0
    some["window"] = np.minimum(tcp.FIRST_WINDOW, some["receive"])
    some["threshold"], some["ack"] = np.inf, tcp.ACK_SHARE
    some["quickest"] = 2 * some["delay"]
