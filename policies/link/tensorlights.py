"""What the TensorLights policies share: job priorities at hosts with several parameter servers.

After "Green, Yellow, Yield: End-Host Traffic Scheduling for Distributed Deep Learning with
TensorLights" (2019). Servers that share a host send their models at the same time, each job's
workers get theirs at different times, and the last one makes a straggler. So the host sends one
job's model before the next job's. Only what a server sends to its workers is ordered; everything
else there, and every other port, is as under FIFO. (`tensorlights_both.py` is ours, and orders what
workers send to servers too.)

A port has one class a rank, sure of next to nothing. Who is ranked where may change from turn to
turn; the classes stay.
"""

from collections.abc import Sequence

from policies.link.discipline import LEVELS, Discipline, ServiceClass, one_queue
from policies.link.port import ByServer, Port

OWN_RATE_BPS = 100_000  # as the original guarantees each job


def in_order(port: Port, ranks: Sequence[int], *, acks_with_rest: bool = False) -> Discipline:
    """The port's servers one after another: `ranks` is the place of each, 0 first."""
    places = range(len(port.servers))
    order = [port.servers[ranks.index(rank)] for rank in places]
    packets: list[ByServer] = [{"servers": (server,), "pushed_to": ()} for server in order]
    return one_by_one(port, packets, acks_with_rest=acks_with_rest)


def one_by_one(
    port: Port, order: Sequence[ByServer], *, acks_with_rest: bool = False
) -> Discipline:
    """Each job's packets before the next one's."""
    jobs = len(order)
    if jobs < 2:  # nobody to give way to
        return one_queue()
    # What no server sends (gradients, other flows) is as urgent as the first job: the original
    # leaves it out of its classes, which htb takes for "at once".
    unranked = ServiceClass("all", rest=True)
    ranked = [
        ServiceClass(f"rank-{rank + 1}", level(rank, jobs), **packets)
        for rank, packets in enumerate(order)
    ]
    least_bps = min(OWN_RATE_BPS, port.rate_bps // (2 * (jobs + 1)))
    return Discipline((unranked, *ranked), least_bps=least_bps, acks_with_rest=acks_with_rest)


def level(rank: int, jobs: int) -> int:
    """The level of a rank: its own while levels last, else shared evenly."""
    return rank if jobs <= LEVELS else rank * LEVELS // jobs
