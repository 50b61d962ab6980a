"""TCP as an experiment asks for it, in the arrays of a simulation."""

from typing import Any

import numpy as np

from testbed.fluid import state, tcp
from testbed.spec.transport import Transport

CUBIC = Transport()


def settle_transport(
    counts: state.Integers, asked: Transport, limits_byte: list[float], marks: bool
) -> None:
    """For every connection that is to come. `marks`: they hold queues short, so nothing is lost.

    A fixed window that is larger than a queue fills it, and it stays full for a while.
    """
    shortest = min(limits_byte)
    counts[state.WINDOW] = asked.window_byte or 0
    counts[state.LAW] = tcp.RENO if asked.control in ("reno", "mltcp") else tcp.EAGER
    counts[state.ITERATES] = asked.control == "mltcp"
    counts[state.RTO_MIN] = asked.rto_min_ns or tcp.RTO_MIN_NS
    counts[state.TIMERS] = not marks and has_timers(asked, shortest)
    counts[state.OVERFLOWS] = not marks and shortest < (asked.window_byte or 0)


def has_timers(asked: Transport, queue_byte: float) -> bool:
    """Packets are lost as a rule, and timers matter, where one connection alone fills a queue.

    With a fixed window, or with what the kernel's receivers give. docs/fluid.md: why only there.
    """
    return queue_byte < max(tcp.ALONE, asked.window_byte or 0)


def open_windows(some: state.Table, counts: state.Integers) -> None:
    """Connections that stand for the whole run begin as a flow does."""
    some["receive"] = counts[state.WINDOW] or tcp.RECEIVER_FIRST
    some["tuned"], some["law"] = counts[state.WINDOW] == 0, counts[state.LAW]
    some["hears_at"] = np.inf
    some["window"] = np.minimum(tcp.FIRST_WINDOW, some["receive"])
    some["threshold"], some["ack"] = np.inf, tcp.ACK_SHARE
    some["quickest"] = 2 * some["delay"]


def held_transport(asked: Transport) -> dict[str, Any]:
    """What of `tcp` is simulated; timers ring at ticks, as the kernel's."""
    facts: dict[str, Any] = {"tcp": asked.control}
    if asked.window_byte is not None:
        facts["tcp_window_byte"] = asked.window_byte
    if asked.rto_min_ns is not None:
        tick_ns = round(tcp.TICK_NS)
        facts["tcp_rto_min_asked_ns"] = asked.rto_min_ns
        facts["tcp_rto_min_ns"] = -(-asked.rto_min_ns // tick_ns) * tick_ns
    return facts
