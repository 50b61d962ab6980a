"""The ring all-reduce: reduce-scatter, then all-gather; 2(N-1) steps, 1/N of the bytes in each."""

from workloads.collectives import Collective, Part, Send, all_gather, reduce_scatter


def part(rank: int, ranks: int) -> Part:
    scatter, gather = reduce_scatter.part(rank, ranks), all_gather.part(rank, ranks)
    sends = scatter.sends + gather.sends
    # Step k goes on as soon as step k - 1 is here, in the second half as in the first.
    chained = (Send(one.to, one.blocks, (k - 1,) if k else ()) for k, one in enumerate(sends))
    return Part(tuple(chained), scatter.receives + gather.receives)


COLLECTIVE = Collective("Ring", part, reduces=True, ring=True)
