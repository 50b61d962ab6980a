"""What the simulation's rates and queues go by, from the disciplines of ports; and what it refuses.

It knows levels, floors, queues of one flow each, and a queue's limit. It shares a level by
connections, not by classes: so bands have a level each. (Servers that share one, as jobs beyond
htb's eight levels do, are taken for one class.)
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from policies.link import Discipline, LinkPolicy, Port
from testbed.fluid import tcp
from testbed.fluid.state import Table
from topologies import Cable


def port_of(cable: Cable, mark_ns: int = 0) -> Port:
    """A port that no servers are behind, as the simulation sees it."""
    return Port("simulated", cable.rate_bps, cable.queue_packets, cable.delay_ns, mark_ns=mark_ns)


def queue_byte(policy: LinkPolicy, port: Port, capacity: float) -> float:
    """The payload that may wait: so many packets, or as much as TCP lets before it is marked."""
    one = policy.discipline_at(port).classes[0]
    limit, mark_ns = one.limit_at(port) * tcp.PAYLOAD, one.mark_ns_at(port)
    return min(limit, capacity * mark_ns) if mark_ns else limit


def demote(schedule: Table, flows: npt.NDArray[np.bool_], to: Sequence[tuple[int, int]]) -> None:
    """Have these flows of a schedule go on at other levels after so many bytes."""
    for at, (after_byte, level) in enumerate(to):
        schedule["demoted_at"][flows, at] = schedule["bytes"][flows] - after_byte
        schedule["demoted_to"][flows, at] = level


def refusal(policy: LinkPolicy, ports: Iterable[Port]) -> str | None:
    """The first thing that a policy wants at one of these ports and that is not simulated."""
    usual: object = None
    for port in ports:
        discipline = policy.discipline_at(port)
        for unknown in _not_simulated(discipline, port):
            return unknown
        shape = [(one.floor, one.queue_per_flow) for one in discipline.band_classes]
        if usual not in (None, shape):
            return "other floors or queues at some ports than at others"
        usual = shape
    return None


def _not_simulated(discipline: Discipline, port: Port) -> Iterator[str]:
    classes, bands = discipline.classes, discipline.band_classes
    if len({(one.level, one.weight) for one in classes}) > len({one.level for one in classes}):
        yield "weights within a level"
    if [one.level for one in bands] != list(range(len(bands))):
        yield "bands that share a level, or levels left out between them"
    if any(one.floor for one in classes) and any(one.by_server for one in classes):
        yield "floors beside classes for servers"
    if len({one.queue_per_flow for one in classes}) > 1:
        yield "a queue a flow in one class and not in another"
    if len({(one.limit_at(port), one.mark_ns_at(port)) for one in classes}) > 1:
        yield "classes whose queues differ in length or marks"
