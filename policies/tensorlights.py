"""What the TensorLights policies share: job priorities at hosts with several parameter servers.

After "Green, Yellow, Yield: End-Host Traffic Scheduling for Distributed Deep Learning with
TensorLights" (2019). Servers that share a host send their models at the same time, each job's
workers get theirs at different times, and the last one makes a straggler. So the host sends one
job's model before the next job's. Only what a server sends to its workers is ordered; everything
else there, and every other port, is as under FIFO.

A port has one htb class a rank, sure of next to nothing and free to borrow the line in the order of
its level. A job is moved to another rank by its filter alone: packets that wait keep their place,
and none is lost. (htb would not notice a class's new `prio` before that class has run empty.)
"""

from collections.abc import Callable
from functools import partial

from policies.base import (
    FIRST_CLASS,
    LinkPolicy,
    Moment,
    Port,
    Queue,
    ServerPort,
    htb_class,
    leaf,
    one_class,
    one_queue,
    shaped_root,
)

LEVELS = 8  # of htb; more jobs than that share them
OWN_RATE_BPS = 100_000  # as the original guarantees each job
START = Moment(0, 0)

# The rank of each of a host's servers at a moment, 0 first.
Order = Callable[[tuple[ServerPort, ...], Moment], list[int]]


def fixed(servers: tuple[ServerPort, ...], moment: Moment) -> list[int]:
    """The order of the file, for ever."""
    return list(range(len(servers)))


def rotated(servers: tuple[ServerPort, ...], moment: Moment) -> list[int]:
    """Each period the first becomes the last, and all others move up."""
    turn = moment.time_ns // moment.period_ns if moment.period_ns else 0
    return [(at - turn) % len(servers) for at in range(len(servers))]


def least_remaining(servers: tuple[ServerPort, ...], moment: Moment) -> list[int]:
    """Who has the least left to send goes first; who sends nothing now comes after them."""

    def key(at: int) -> tuple[bool, int, int]:
        left = moment.remaining_byte.get(servers[at].job, 0)
        return left == 0, left, at

    order = sorted(range(len(servers)), key=key)
    return [order.index(at) for at in range(len(servers))]


def level(rank: int, jobs: int) -> int:
    """The priority of a rank: its own while levels last, else shared evenly."""
    return rank if jobs <= LEVELS else rank * LEVELS // jobs


def priority_of(order: Order, servers: tuple[ServerPort, ...], job: str, moment: Moment) -> int:
    """The level of a job at a host, 0 first; 0 where there is nobody to give way to."""
    if len(servers) < 2:
        return 0
    at = [server.job for server in servers].index(job)
    return level(order(servers, moment)[at], len(servers))


def class_number(rank: int) -> int:
    return FIRST_CLASS + 1 + rank


def own_rate_bps(port: Port) -> int:
    return min(OWN_RATE_BPS, port.rate_bps // (2 * (len(port.servers) + 1)))


def commands(order: Order, port: Port) -> list[str]:
    if len(port.servers) < 2:
        return [*one_class(port), leaf(port, f"1:{FIRST_CLASS}", FIRST_CLASS)]
    jobs, own_bps = len(port.servers), own_rate_bps(port)
    # What no server sends (gradients, other flows) is as urgent as the first job: the original
    # leaves it out of its classes, which htb takes for "at once".
    classes = [(FIRST_CLASS, 0)] + [(class_number(rank), level(rank, jobs)) for rank in range(jobs)]
    made = shaped_root(port, default_class=FIRST_CLASS)
    for number, prio in classes:
        made.append(htb_class(port, "1:1", number, own_bps, prio))
        made.append(leaf(port, f"1:{number}", number))
    for at, rank in enumerate(order(port.servers, START)):
        made.append(
            f"filter add dev {port.device} parent 1: protocol ip prio 1 {handle(at)} u32 "
            f"match ip protocol 6 0xff match ip sport {port.servers[at].port} 0xffff "
            f"flowid 1:{class_number(rank)}"
        )
    return made


def act(order: Order, port: Port, moment: Moment) -> list[str]:
    """Where each job's filter should lead now."""
    if len(port.servers) < 2:
        return []
    return [
        f"filter change dev {port.device} parent 1: protocol ip prio 1 {handle(at)} u32 "
        f"flowid 1:{class_number(rank)}"
        for at, rank in enumerate(order(port.servers, moment))
    ]


def handle(at: int) -> str:
    """The name of a job's filter in the kernel's first u32 table, so that it can be changed."""
    return f"handle 800::{at + 1:x}"


def queues(port: Port) -> list[Queue]:
    """One for each rank, and one for everything that no server sends."""
    if len(port.servers) < 2:
        return one_queue(port)
    ranks = [
        Queue(f"rank-{rank + 1}", f"1:{class_number(rank)}", port.queue_packets)
        for rank in range(len(port.servers))
    ]
    return [*one_queue(port), *ranks]


def policy(
    name: str,
    title: str,
    description: str,
    order: Order,
    period_ns: int = 0,
    watches: bool = False,
) -> LinkPolicy:
    return LinkPolicy(
        name=name,
        title=title,
        description=description,
        bands=("all",),
        flows="all",
        training="all",
        commands=partial(commands, order),
        queues=queues,
        period_ns=period_ns,
        act=partial(act, order) if period_ns else None,
        watches=watches,
        priority_of=partial(priority_of, order),
    )
