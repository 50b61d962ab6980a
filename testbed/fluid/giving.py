"""What a connection gets, and its links lose (compiled)."""

from testbed.fluid.inner import inlined
from testbed.fluid.state import Table


@inlined
def give(c: Table, w: Table, one: int, more: float) -> None:
    """As much more as its window and its links allow, and not above `more`."""
    more = min(more, c.cap[one] - c.new_rate[one])
    for hop in range(c.hops[one]):
        more = min(more, w.residue[c.path[one, hop]])
    more = max(0.0, more)
    c.frozen[one] = 1
    c.new_rate[one] += more
    for hop in range(c.hops[one]):
        w.residue[c.path[one, hop]] -= more
