"""All-to-all: every rank has a block for every other; in turns, so that nobody is met by all."""

from workloads.collectives import Collective, Part, Receive, Send


def part(rank: int, ranks: int) -> Part:
    turns = range(1, ranks)
    sends = (Send((rank + turn) % ranks, ((rank + turn) % ranks, 1)) for turn in turns)
    receives = (
        Receive((rank - turn) % ranks, ((rank - turn) % ranks, 1), adds=False) for turn in turns
    )
    return Part(tuple(sends), tuple(receives))


COLLECTIVE = Collective("All-to-all", part)
