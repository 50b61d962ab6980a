"""What the operations of a forward pass need, for TicTac's two orders. Pure.

A set of transfers is an integer with a bit for each, so that sets of thousands stay cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.transfer.policy import Work

NEVER = float("inf")


@dataclass(frozen=True)
class Operation:
    """Compute that can begin when its needs, and those of all before it, are here."""

    needs: int  # a bit for each transfer
    time: float


def forward_pass(work: Work) -> list[Operation]:
    """Layer by layer: each needs its own values and those of all layers before it."""
    return [
        Operation((1 << (layer + 1)) - 1, float(time_ns))
        for layer, time_ns in enumerate(work.forward_ns)
    ]


def bits(number: int) -> list[int]:
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def joint_cost(
    operations: Sequence[Operation], cost: Sequence[float], outstanding: int
) -> list[float]:
    """M+: for each transfer, the least that an operation needs which needs it and one more."""
    found = [NEVER] * len(cost)
    needs = {one.needs & outstanding for one in operations}
    totals: dict[int, float] = {0: 0.0}
    for one in sorted(needs, key=int.bit_count):
        # Without its last transfer it is often the operation before: its sum is known then.
        last = one.bit_length() - 1
        rest = one & ~(1 << last) if one else 0
        if rest not in totals:
            totals[rest] = sum(cost[at] for at in bits(rest))
        totals[one] = totals[rest] + cost[last] if one else 0.0
    seen = 0
    for total, one in sorted((totals[one], one) for one in needs if one & (one - 1)):
        for at in bits(one & ~seen):
            found[at] = total
        seen |= one
    return found


def sole_time(operations: Sequence[Operation], transfers: int, outstanding: int) -> list[float]:
    """P: for each transfer, the compute that waits for it alone."""
    found = [0.0] * transfers
    for one in operations:
        left = one.needs & outstanding
        if left and not left & (left - 1):
            found[left.bit_length() - 1] += one.time
    return found


def as_ranks(order: Sequence[int]) -> tuple[int, ...]:
    """The place of each transfer in an order."""
    places = dict(zip(order, range(len(order)), strict=True))
    return tuple(places[at] for at in range(len(order)))
