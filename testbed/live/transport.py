"""How TCP of a live network's hosts is set up: windows and timers, for every program there.

Settings of a host's network namespace, not of single sockets: real training stacks open their own.
"""

import time
from typing import Any

from basics.errors import CannotRun
from basics.units import format_time
from testbed.engine import Wiring

# Half of a buffer is for bookkeeping, as the kernel has it with SO_RCVBUF and SO_SNDBUF.
BUFFER_FACTOR = 2
LEAST_BUFFER_BYTE = 4096
COARSE_CLOCK = 6  # CLOCK_MONOTONIC_COARSE
RTO_MIN = "tcp_rto_min_us"  # since Linux 6.11


def settings(wiring: Wiring) -> dict[str, str]:
    """Of /proc/sys/net/ipv4 in a host: what differs from the kernel's own."""
    wanted: dict[str, str] = {}
    if wiring.window_byte is not None:
        buffer = BUFFER_FACTOR * wiring.window_byte
        # At least, at first, at most: nothing is left to tune.
        both = f"{min(buffer, LEAST_BUFFER_BYTE)} {buffer} {buffer}"
        wanted |= {"tcp_rmem": both, "tcp_wmem": both}
    if wiring.rto_min_ns is not None:
        wanted[RTO_MIN] = str(round(wiring.rto_min_ns * wiring.dilation / 1e3))
    return wanted


def demand_timers(wiring: Wiring, tick_ns: int, kernel: str) -> None:
    """Refuse a timeout that is shorter than this kernel's clock ticks."""
    asked_ns = wiring.rto_min_ns
    if asked_ns is not None and asked_ns * wiring.dilation < tick_ns:
        least_ns = round(tick_ns / wiring.dilation)
        raise CannotRun(
            f"tcp.rto_min: {format_time(asked_ns)} is below a tick of {kernel}, "
            f"{format_time(least_ns)}: its timers know nothing shorter"
        )


def held(wiring: Wiring, tick_ns: int) -> dict[str, Any]:
    """What the manifest says of it; the kernel's timeouts are whole ticks."""
    facts: dict[str, Any] = {"tcp": wiring.tcp}
    if wiring.window_byte is not None:
        facts["tcp_window_byte"] = wiring.window_byte
    if wiring.rto_min_ns is not None:
        ticks = -(-round(wiring.rto_min_ns * wiring.dilation) // tick_ns)
        facts["tcp_rto_min_asked_ns"] = wiring.rto_min_ns
        facts["tcp_rto_min_ns"] = round(ticks * tick_ns / wiring.dilation)
    return facts


def tick_ns() -> int:
    """Of the kernel that this runs on: its coarse clocks move once a tick."""
    return round(time.clock_getres(COARSE_CLOCK) * 1e9)
