"""What a link policy is, and the parts that all of them share.

Every port is shaped by the same htb root at line rate, so that two policies differ in their
queues and in nothing else. Packets are told apart by their ToS byte and not by skb->priority:
a packet that crosses a veth pair loses its priority, and a bridge does not restore it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from policies.steering import Steering

# The three bands and the ToS byte of each. These bytes land in the same order in the kernel's
# own priomap, so prio and pfifo_fast at a host agree with the filters here.
BAND_TOS: dict[str, int] = {"high": 0x10, "middle": 0x00, "low": 0x08}

MTU_FRAME_BYTE = 1514
FIRST_CLASS = 10


@dataclass(frozen=True)
class ServerPort:
    """A parameter server at a host: whose it is, and the TCP port that it sends from."""

    job: str
    port: int


@dataclass(frozen=True)
class Port:
    """One direction of a link, where packets wait: the egress side of an interface."""

    device: str
    rate_bps: int
    queue_packets: int
    delay_ns: int = 0  # 0: no netem
    slack_ns: int = 200_000  # how late this kernel's timers may be; the burst covers it
    count_bytes: bool = False  # offloads on: a queue of N packets is a queue of N full frames
    mark_ns: int = 0  # a packet that has waited longer is marked (ECN), for DCTCP; 0: never
    servers: tuple[ServerPort, ...] = ()  # the parameter servers behind a host's port


@dataclass(frozen=True)
class Queue:
    """A queue that `commands` made: which htb class counts it, and what to call it."""

    band: str
    class_id: str
    limit_packets: int


@dataclass(frozen=True)
class Sharing:
    """What a port's queues amount to, for an engine without packets.

    Bands go before each other in their order. Each is sure of its floor, a share of the line.
    Within a band, connections share alike; a packet waits behind its band's queue, unless every
    flow has a queue of its own.
    """

    floors: Mapping[str, float] = field(default_factory=dict)
    queue_per_flow: bool = False


@dataclass(frozen=True)
class Moment:
    """What a policy that acts during a run gets to know, at each of its turns."""

    time_ns: int
    period_ns: int  # from turn to turn
    remaining_byte: Mapping[str, int] = field(default_factory=dict)  # of each job's broadcast


@dataclass(frozen=True)
class LinkPolicy:
    """A rule for who waits at a port.

    `bands` are the queues from first served to last. `commands` gives the tc commands for one
    port, `queues` the classes that they make. `flows` and `training` say which band each kind
    of traffic gets unless the experiment file says otherwise. `sharing` is the same rule for an
    engine without packets. `steering` makes the rule that moves a worker of a training job between
    bands during the run, if the policy has one. `needs` names the kernel features.

    A policy that acts during a run has a `period_ns`: that often, `act` gives the tc commands that
    a port should have been given last, and those that are new are applied in one batch (see
    testbed/agent.py). One that `watches` wants to know what broadcasts have left. `priority_of` is
    the level of a job at a port's host, 0 first: what `commands` and `act` are made from, and what
    engines without packets ask.
    """

    name: str
    title: str
    description: str
    bands: tuple[str, ...]
    flows: str
    training: str
    commands: Callable[[Port], list[str]]
    queues: Callable[[Port], list[Queue]]
    sharing: Sharing = Sharing()
    steering: Callable[[int], Steering] | None = None  # of a job with this compute time, in ns
    needs: frozenset[str] = field(default_factory=lambda: frozenset({"htb", "pfifo", "u32"}))
    period_ns: int = 0
    act: Callable[[Port, Moment], list[str]] | None = None
    watches: bool = False
    priority_of: Callable[[tuple[ServerPort, ...], str, Moment], int] | None = None

    def band_of(self, kind: str) -> str:
        """The default band of "flows" or "training"."""
        return self.flows if kind == "flows" else self.training


def tos_of(band: str) -> int:
    """The ToS byte that puts a packet into `band`; a policy with one queue marks as high."""
    return BAND_TOS.get(band, BAND_TOS["high"])


def shaped_root(port: Port, default_class: int) -> list[str]:
    """An htb root whose one parent class runs at line rate, behind netem where delay is asked.

    netem stands first so that it only delays: every drop happens in the queues below, whose
    limits are exact.
    """
    commands = []
    attach = "root"
    if port.delay_ns:
        smallest_frame_bit = 8 * 64
        in_flight = port.rate_bps * port.delay_ns // (1_000_000_000 * smallest_frame_bit)
        commands.append(
            f"qdisc replace dev {port.device} root handle 9: netem "
            f"delay {port.delay_ns / 1000:.3f}us limit {in_flight + 1000}"
        )
        attach = "parent 9:1"
    return [
        *commands,
        f"qdisc replace dev {port.device} {attach} handle 1: htb default {default_class}",
        htb_class(port, "1:", 1, own_bps=port.rate_bps),
    ]


def htb_class(port: Port, parent: str, number: int, own_bps: int, prio: int = 0) -> str:
    """A class sure of `own_bps` that may borrow up to line rate, in the order of `prio`."""
    return (
        f"class replace dev {port.device} parent {parent} classid 1:{number} htb prio {prio} "
        f"rate {own_bps}bit ceil {port.rate_bps}bit "
        f"burst {burst_byte(port, own_bps)}b cburst {burst_byte(port, port.rate_bps)}b "
        f"quantum 60000"
    )


def burst_byte(port: Port, rate_bps: int) -> int:
    """Enough tokens to make up for a late timer, and never less than two full frames."""
    return max(2 * MTU_FRAME_BYTE, rate_bps * port.slack_ns // 8_000_000_000)


def banded(port: Port, own_bps: Mapping[str, int]) -> list[str]:
    """One queue a band, the higher served first; each band is sure of its own rate."""
    made = shaped_root(port, default_class=FIRST_CLASS + list(BAND_TOS).index("middle"))
    for prio, (band, tos) in enumerate(BAND_TOS.items()):
        number = FIRST_CLASS + prio
        made += [
            htb_class(port, "1:1", number, own_bps[band], prio),
            leaf(port, f"1:{number}", number),
            by_tos(port, "1:", number, tos, f"1:{number}"),
        ]
    return made


def one_class(port: Port) -> list[str]:
    """Everything in one class at line rate; what waits below it is the policy's to say."""
    return [
        *shaped_root(port, default_class=FIRST_CLASS),
        htb_class(port, "1:1", FIRST_CLASS, own_bps=port.rate_bps),
    ]


def one_queue(port: Port) -> list[Queue]:
    """The queue of a policy that does not tell traffic apart."""
    return [Queue("all", f"1:{FIRST_CLASS}", port.queue_packets)]


def band_queues(port: Port) -> list[Queue]:
    """The queues that `banded` makes."""
    return [
        Queue(band, f"1:{FIRST_CLASS + prio}", port.queue_packets)
        for prio, band in enumerate(BAND_TOS)
    ]


def leaf(port: Port, parent: str, handle: int) -> str:
    """The packet queue below a class."""
    if port.mark_ns:
        # CoDel with its own law out of reach: what is left marks at a fixed waiting time.
        kind = (
            f"codel limit {port.queue_packets} target 10s interval 100s "
            f"ce_threshold {port.mark_ns / 1000:.3f}us"
        )
    elif port.count_bytes:
        kind = f"bfifo limit {port.queue_packets * MTU_FRAME_BYTE}"
    else:
        kind = f"pfifo limit {port.queue_packets}"
    return f"qdisc replace dev {port.device} parent {parent} handle {handle}: {kind}"


def by_tos(port: Port, parent: str, order: int, tos: int, flow_id: str) -> str:
    """Packets with this ToS byte (ECN bits aside) go to this class."""
    return (
        f"filter replace dev {port.device} parent {parent} protocol ip prio {order} "
        f"u32 match ip tos {tos:#04x} 0xfc flowid {flow_id}"
    )


def marking_ns(rate_bps: int) -> int:
    """How long a packet waits behind K others: K is 20 at 1 Gbit/s and 65 at 10 (DCTCP paper)."""
    packets = 20 + 5 * max(0.0, rate_bps / 1e9 - 1)
    return round(packets * MTU_FRAME_BYTE * 8e9 / rate_bps)
