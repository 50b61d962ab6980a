"""One rank sends what it has to the next: what a pipeline of layers does."""

from workloads.collectives import Collective, Part, Receive, Send


def part(rank: int, ranks: int) -> Part:
    sends = (Send(rank + 1, (0, 1), (0,) if rank else ()),) if rank + 1 < ranks else ()
    receives = (Receive(rank - 1, (0, 1), adds=False),) if rank else ()
    return Part(sends, receives)


COLLECTIVE = Collective("Send", part, blocks=lambda ranks: 1)
