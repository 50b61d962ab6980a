"""Where packets wait: one direction of a link, as policies and engines see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

MTU_FRAME_BYTE = 1514


@dataclass(frozen=True)
class ServerPort:
    """A parameter server at a host: whose it is, and the TCP port that it sends from."""

    job: str
    port: int
    byte: int = field(default=0, compare=False)  # of the job's model, where that is known


@dataclass(frozen=True)
class Port:
    """One direction of a link: the egress side of an interface."""

    device: str
    rate_bps: int
    queue_packets: int
    delay_ns: int = 0  # 0: no netem
    slack_ns: int = 200_000  # how late this kernel's timers may be; the burst covers it
    count_bytes: bool = False  # offloads on: a queue of N packets is a queue of N full frames
    mark_ns: int = 0  # a packet that has waited longer is marked (ECN), for DCTCP; 0: never
    servers: tuple[ServerPort, ...] = ()  # the parameter servers behind a host's port
    # Those that gradients go to: out of their workers' hosts, and into their own.
    pushed_to: tuple[ServerPort, ...] = ()
    # All native jobs, at every port: what is sent from or to a job's TCP port is that job's.
    jobs: tuple[ServerPort, ...] = ()


class ByServer(TypedDict):
    """Packets told apart by their servers: those that send them, those that they are pushed to."""

    servers: tuple[ServerPort, ...]
    pushed_to: tuple[ServerPort, ...]


class ByJob(ByServer):
    jobs: tuple[ServerPort, ...]


@dataclass(frozen=True)
class ServerMap:
    """Parameter servers by host: those that a host holds, and those that its workers push to."""

    held: Mapping[str, tuple[ServerPort, ...]] = field(default_factory=dict)
    pushed_to: Mapping[str, tuple[ServerPort, ...]] = field(default_factory=dict)
    jobs: tuple[ServerPort, ...] = ()

    def at(self, near: str, far: str) -> ByJob:
        """What the port from one node to another is told of servers and jobs."""
        out = self.pushed_to.get(near, ())
        return {
            "servers": self.held.get(near, ()),
            "pushed_to": out + self.held.get(far, ()),
            "jobs": self.jobs,
        }


def marking_ns(rate_bps: int) -> int:
    """How long a packet waits behind K others: K is 20 at 1 Gbit/s and 65 at 10 (DCTCP paper)."""
    packets = 20 + 5 * max(0.0, rate_bps / 1e9 - 1)
    return round(packets * MTU_FRAME_BYTE * 8e9 / rate_bps)
