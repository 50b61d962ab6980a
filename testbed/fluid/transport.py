"""TCP as an experiment asks for it, in the arrays of a simulation."""

from typing import Any

import numpy as np

from testbed.fluid import state, tcp
from testbed.spec.transport import Transport

CUBIC = Transport()


def settle_transport(counts: state.Integers, asked: Transport, marks: bool) -> None:
    """For every connection that is to come."""
    counts[state.MARKS] = marks
    counts[state.LAW] = tcp.RENO if asked.control == "reno" else tcp.EAGER
    counts[state.WINDOW] = asked.window_byte or 0
    counts[state.RTO_MIN] = asked.rto_min_ns or tcp.RTO_MIN_NS


def open_windows(some: state.Table, counts: state.Integers) -> None:
    """Connections that stand for the whole run begin as a flow does."""
    some["receive"] = counts[state.WINDOW] or tcp.RECEIVER_FIRST
    some["tuned"], some["law"] = counts[state.WINDOW] == 0, counts[state.LAW]
    some["window"] = np.minimum(tcp.FIRST_WINDOW, some["receive"])
    some["threshold"], some["ack"] = np.inf, tcp.ACK_SHARE
    some["quickest"] = 2 * some["delay"]


def held_transport(asked: Transport) -> dict[str, Any]:
    """What of `tcp` is simulated; timers ring at ticks, as the kernel's."""
    facts: dict[str, Any] = {"tcp": asked.control}
    if asked.window_byte is not None:
        facts["tcp_window_byte"] = asked.window_byte
    if asked.rto_min_ns is not None:
        ticks = -(-asked.rto_min_ns // round(tcp.TICK_NS))
        facts["tcp_rto_min_asked_ns"] = asked.rto_min_ns
        facts["tcp_rto_min_ns"] = ticks * round(tcp.TICK_NS)
    return facts
