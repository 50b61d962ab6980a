"""Reduce-scatter in a ring: N-1 steps, and rank r holds the sum of block r + 1."""

from workloads.collectives import Collective, Part, Receive, Send


def part(rank: int, ranks: int) -> Part:
    steps = range(ranks - 1)
    sends = (
        Send((rank + 1) % ranks, ((rank - k) % ranks, 1), (k - 1,) if k else ()) for k in steps
    )
    receives = (Receive((rank - 1) % ranks, ((rank - k - 1) % ranks, 1), adds=True) for k in steps)
    return Part(tuple(sends), tuple(receives))


COLLECTIVE = Collective("Reduce-scatter (ring)", part)
