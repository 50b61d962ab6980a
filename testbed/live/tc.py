"""A discipline as the kernel is told it: pure, a port in, `tc` commands out.

Every port is shaped by the same htb root at line rate, so that two policies differ in their queues
and in nothing else. Packets are told apart by their ToS byte and not by skb->priority: a packet
that crosses a veth pair loses its priority, and a bridge does not restore it.

A class is an htb class that may borrow the whole line, in the order of its level. With the
mechanism `prio` there is one htb class, and the classes are bands of a prio qdisc below it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from basics.bands import BAND_TOS
from policies.link import Discipline, LinkPolicy, Port, ServerPort, ServiceClass
from policies.link.policy import ANY_PORT
from policies.link.port import MTU_FRAME_BYTE

FIRST_CLASS = 10
NFT = "nft"  # the feature of a kernel, and a machine, that can mark (kernel_marks.py)
DELAYED_PACKETS = 1_000_000  # at once, behind one port: more than sockets may hold
DELAY_STEP_NS = 1000  # what tc (iproute2 6.1) can say; it cuts off the rest
QUANTUM_BYTE = 60_000  # what a class of weight 1 may send before the next of its level
SERVER_FILTERS = 1  # their order among the filters: before those by ToS
FIRST_U32_TABLE = 0x800
BARE_ACK = "u16 0x0000 0xff80 at 2"  # a length of IP below 128 bytes: with room for SACK
PRIO = f"{FIRST_CLASS}:"  # the prio qdisc, where it is the mechanism


@dataclass(frozen=True)
class KernelQueue:
    """A queue that `commands` make: what to call it, and which class of the kernel counts it."""

    name: str
    class_id: str
    limit_packets: int


def commands(discipline: Discipline, port: Port) -> list[str]:
    """Everything that makes a fresh interface follow a discipline."""
    classes = discipline.classes
    made = (
        [*_one_class(port), _prio_qdisc(discipline, port)]
        if discipline.mechanism == "prio"
        else _shaped_root(port, FIRST_CLASS + [one.rest for one in classes].index(True))
    )
    for at, one in enumerate(classes):
        parent, number = _parent(discipline), _number(discipline, at)
        if discipline.mechanism == "htb":
            own_bps = _own_bps(discipline, one, port)
            quantum = _quantum_byte(discipline, one)
            made.append(_htb_class(port, "1:1", number, own_bps, one.level, quantum))
            made.append(_leaf(one, port, _class_id(discipline, at), number))
        else:
            made.append(_leaf(one, port, _class_id(discipline, at), FIRST_CLASS + number))
        made += [
            f"filter replace dev {port.device} parent {parent} protocol ip prio {number} "
            f"u32 match ip tos {BAND_TOS[band]:#04x} 0xfc flowid {_class_id(discipline, at)}"
            for band in one.bands
        ]
    made += [
        f"filter add {filter_} u32 match ip protocol 6 0xff match {what} flowid {class_id}"
        for what, filter_, class_id in _server_filters(discipline, port)
    ]
    return made


def moves(discipline: Discipline, port: Port) -> list[str]:
    """What leads packets from and to each server to their class, at a port that has these classes.

    A filter alone moves a job: packets that wait keep their place, and none is lost. (htb would not
    notice a class's new `prio` before that class has run empty.)
    """
    return [
        f"filter change {filter_} u32 flowid {class_id}"
        for _, filter_, class_id in _server_filters(discipline, port)
    ]


def queues(discipline: Discipline, port: Port) -> list[KernelQueue]:
    return [
        KernelQueue(one.name, _class_id(discipline, at), one.limit_at(port))
        for at, one in enumerate(discipline.classes)
    ]


def needs(policy: LinkPolicy) -> frozenset[str]:
    """The qdiscs and classifiers that a kernel must have for a policy."""
    servers = (ServerPort("one", 1), ServerPort("other", 2))
    found = {"htb"}
    for port in (ANY_PORT, replace(ANY_PORT, servers=servers, pushed_to=servers, jobs=servers)):
        discipline = policy.discipline_at(port)
        found.add(discipline.mechanism)
        if discipline.kernel_marks:
            found.add(NFT)
        for one in discipline.classes:
            found.add("fq_codel" if one.queue_per_flow else "codel" if one.mark_ns else "pfifo")
            if one.bands or one.by_server:
                found.add("u32")
    return frozenset(found)


# ---- numbers and names of classes ---------------------------------------------------------


def _parent(discipline: Discipline) -> str:
    """The qdisc that sorts packets into classes."""
    return PRIO if discipline.mechanism == "prio" else "1:"


def _number(discipline: Discipline, at: int) -> int:
    return 1 + at if discipline.mechanism == "prio" else FIRST_CLASS + at


def _class_id(discipline: Discipline, at: int) -> str:
    return f"{_parent(discipline)}{_number(discipline, at)}"


def _server_filters(discipline: Discipline, port: Port) -> Iterator[tuple[str, str, str]]:
    """What tells packets apart, the filter for it in words that name it, and where that leads."""
    # Every order of filters has a u32 table, in the order in which they were made: that of the
    # servers comes last.
    table = FIRST_U32_TABLE + sum(bool(one.bands) for one in discipline.classes)
    senders, getters = (
        dict.fromkeys((*some, *port.jobs)) for some in (port.servers, port.pushed_to)
    )
    rest = next(one for one in discipline.classes if one.rest)
    acks = [(BARE_ACK, rest)] if discipline.acks_with_rest else []
    held = [(f"ip sport {one.port} 0xffff", discipline.class_of(one)) for one in senders]
    pushed_to = [
        (f"ip dport {one.port} 0xffff", discipline.class_of_pushes(one)) for one in getters
    ]
    known = [(what, one) for what, one in (*acks, *held, *pushed_to) if one is not None]
    for at, (what, one) in enumerate(known):
        filter_ = (
            f"dev {port.device} parent {_parent(discipline)} protocol ip "
            f"prio {SERVER_FILTERS} handle {table:x}::{at + 1:x}"
        )
        yield what, filter_, _class_id(discipline, discipline.classes.index(one))


# ---- parts --------------------------------------------------------------------------------


def _shaped_root(port: Port, default_class: int) -> list[str]:
    """An htb root whose one parent class runs at line rate, behind netem where delay is asked.

    netem stands first so that it only delays: every drop happens in the queues below, whose
    limits are exact, and which are read. So it has room for whatever may come at one instant:
    where computing takes no time, thousands of packets of one host do.
    """
    made = []
    attach = "root"
    if port.delay_ns:
        made.append(
            f"qdisc replace dev {port.device} root handle 9: netem "
            f"delay {round(port.delay_ns / DELAY_STEP_NS)}us limit {DELAYED_PACKETS}"
        )
        attach = "parent 9:1"
    return [
        *made,
        f"qdisc replace dev {port.device} {attach} handle 1: htb default {default_class}",
        _htb_class(port, "1:", 1, own_bps=port.rate_bps),
    ]


def _one_class(port: Port) -> list[str]:
    """Everything in one class at line rate."""
    return [
        *_shaped_root(port, default_class=FIRST_CLASS),
        _htb_class(port, "1:1", FIRST_CLASS, own_bps=port.rate_bps),
    ]


def _htb_class(
    port: Port,
    parent: str,
    number: int,
    own_bps: int,
    prio: int = 0,
    quantum_byte: int = QUANTUM_BYTE,
) -> str:
    """A class sure of `own_bps` that may borrow up to line rate, in the order of `prio`."""
    return (
        f"class replace dev {port.device} parent {parent} classid 1:{number} htb prio {prio} "
        f"rate {own_bps}bit ceil {port.rate_bps}bit "
        f"burst {burst_byte(port, own_bps)}b cburst {burst_byte(port, port.rate_bps)}b "
        f"quantum {quantum_byte}"
    )


def burst_byte(port: Port, rate_bps: int) -> int:
    """Enough tokens to make up for a late timer, and never less than two full frames."""
    return max(2 * MTU_FRAME_BYTE, rate_bps * port.slack_ns // 8_000_000_000)


def _own_bps(discipline: Discipline, one: ServiceClass, port: Port) -> int:
    if len(discipline.classes) == 1:
        return port.rate_bps  # nobody else is there
    return int(port.rate_bps * one.floor) or discipline.least_bps


def _quantum_byte(discipline: Discipline, one: ServiceClass) -> int:
    """In proportion to the weight; the lightest class of a level still sends a large packet."""
    lightest = min(other.weight for other in discipline.classes if other.level == one.level)
    return round(QUANTUM_BYTE * one.weight / lightest)


def _prio_qdisc(discipline: Discipline, port: Port) -> str:
    rest = [one.rest for one in discipline.classes].index(True)
    unmatched = " ".join([str(rest)] * 16)  # whatever a packet's skb->priority is
    return (
        f"qdisc replace dev {port.device} parent 1:{FIRST_CLASS} handle {PRIO} "
        f"prio bands {len(discipline.classes)} priomap {unmatched}"
    )


def _leaf(one: ServiceClass, port: Port, parent: str, handle: int) -> str:
    """The packet queue below a class."""
    limit, mark_ns = one.limit_at(port), one.mark_ns_at(port)
    marks = f" ce_threshold {mark_ns / 1000:.3f}us" if mark_ns else ""
    if one.queue_per_flow:
        kind = f"fq_codel limit {limit}{marks}"
    elif mark_ns:
        # CoDel with its own law out of reach: what is left marks at a fixed waiting time.
        kind = f"codel limit {limit} target 10s interval 100s{marks}"
    elif port.count_bytes:
        kind = f"bfifo limit {limit * MTU_FRAME_BYTE}"
    else:
        kind = f"pfifo limit {limit}"
    return f"qdisc replace dev {port.device} parent {parent} handle {handle}: {kind}"
