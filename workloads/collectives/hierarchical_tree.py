"""An all-reduce by racks: a ring in the rack, binary trees across racks, and the ring again.

As hierarchical-ring, but the workers of the same place in all racks sum up a tree and copy down it,
in as many pieces as there are racks: fewer steps, and more bytes at the links of inner nodes.
"""

from collections.abc import Sequence

from workloads.collectives import Collective, Part, Receive, Send
from workloads.collectives.by_racks import by_racks, refuses_racks

DEGREE = 2


def across(rack: int, racks: int) -> Part:
    """Up and down a tree of racks, over as many blocks."""
    below = [one for one in range(racks) if one and (one - 1) // DEGREE == rack]
    above = (rack - 1) // DEGREE
    sends: list[Send] = []
    receives: list[Receive] = []
    for block in range(racks):
        first = len(receives)
        receives += (Receive(one, (block, 1), adds=True) for one in below)
        summed = tuple(range(first, len(receives)))
        if rack:
            sends.append(Send(above, (block, 1), summed))
        else:
            sends += (Send(one, (block, 1), summed) for one in below)
    for block in range(racks if rack else 0):
        came = (len(receives),)
        receives.append(Receive(above, (block, 1), adds=False))
        sends += (Send(one, (block, 1), came) for one in below)
    return Part(tuple(sends), tuple(receives))


def by_rack(rank: int, racks: Sequence[int]) -> Part:
    return by_racks(rank, racks, across)


COLLECTIVE = Collective(
    "Ring in racks, trees across",
    lambda rank, ranks: by_rack(rank, [0] * ranks),
    reduces=True,
    by_rack=by_rack,
    refuses_racks=refuses_racks,
)
