"""All-gather in a ring: rank r begins with block r + 1, and after N-1 steps has them all."""

from workloads.collectives import Collective, Part, Receive, Send


def part(rank: int, ranks: int) -> Part:
    steps = range(ranks - 1)
    sends = (
        Send((rank + 1) % ranks, ((rank + 1 - k) % ranks, 1), (k - 1,) if k else ()) for k in steps
    )
    receives = (Receive((rank - 1) % ranks, ((rank - k) % ranks, 1), adds=False) for k in steps)
    return Part(tuple(sends), tuple(receives))


COLLECTIVE = Collective("All-gather (ring)", part)
