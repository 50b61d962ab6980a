"""Recursive halving and doubling: an all-reduce in 2 log2(N) exchanges with ever nearer partners.

Partners N/2 apart exchange halves of the vector and add them up, then those N/4 apart halves of
that half, and so on; then the same way back, in which what is complete takes the other's place.
"""

from workloads.collectives import Blocks, Collective, Part, Receive, Send


def part(rank: int, ranks: int) -> Part:
    sends: list[Send] = []
    receives: list[Receive] = []
    mine: Blocks = (0, ranks)
    way: list[tuple[int, Blocks]] = []  # partner, and what we both had before

    def exchange(partner: int, gives: Blocks, takes: Blocks, adds: bool) -> None:
        # All so far, not only the last: partners are different ranks, and may overtake each other.
        sends.append(Send(partner, gives, after=tuple(range(len(receives)))))
        receives.append(Receive(partner, takes, adds))

    apart = ranks // 2
    while apart:
        partner = rank ^ apart
        lower, upper = (mine[0], mine[1] // 2), (mine[0] + mine[1] // 2, mine[1] // 2)
        keeps, gives = (lower, upper) if rank < partner else (upper, lower)
        exchange(partner, gives, keeps, adds=True)
        way.append((partner, mine))
        mine = keeps
        apart //= 2
    for partner, before in reversed(way):
        middle = before[0] + mine[1]
        other = (middle if mine[0] == before[0] else before[0], mine[1])
        exchange(partner, mine, other, adds=False)
        mine = before
    return Part(tuple(sends), tuple(receives))


def refuses(ranks: int) -> str | None:
    return None if ranks & (ranks - 1) == 0 else "needs a power of two: 2, 4, 8, 16 …"


COLLECTIVE = Collective("Halving and doubling", part, reduces=True, refuses=refuses)
