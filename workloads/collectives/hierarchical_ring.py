"""An all-reduce by racks: a ring in the rack, rings across racks, and the ring in the rack again.

Reduce-scatter in the rack leaves each of its k workers with a k-th of the rack's sum. The workers
of the same place in all racks add theirs up in a ring of their own; all-gather in the rack does the
rest. A rack sends less than 2 vectors to others, each of its hosts a k-th of that.
"""

from collections.abc import Sequence

from workloads.collectives import Collective, Part, ring
from workloads.collectives.by_racks import by_racks, refuses_racks


def by_rack(rank: int, racks: Sequence[int]) -> Part:
    return by_racks(rank, racks, ring.part)


COLLECTIVE = Collective(
    "Ring in racks, rings across",
    lambda rank, ranks: by_rack(rank, [0] * ranks),
    reduces=True,
    by_rack=by_rack,
    refuses_racks=refuses_racks,
)
