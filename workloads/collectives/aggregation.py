"""Push and pull of a parameter-server job through its workers: sums in racks and up trees.

Within a rack, the workers are a balanced tree: the first is its root, and with no degree the parent
of all others. The root may be a host of the rack that does nothing else (`on_hosts`): a rank behind
the servers, with nothing of its own to add. Roots send to the servers (`direct`), or to each other
up a tree that ends at the server (`tree`); that tree begins at another rack for every server, so
that no rack is above all others for all of the model. Pulls come down the same way (`multicast`),
or straight from servers.

The vector is cut into a part for each server, and that into pieces: a worker sends a piece on when
it has it from all below. Gradients are sent server by server, in the same order by everybody: so
the last server gets its part last from all. Of the model, all servers' first pieces come first,
since all servers send at once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workloads.collectives import Part, Receive, Send

DIRECT, TREE = "direct", "tree"


@dataclass(frozen=True)
class Aggregation:
    """The group is the workers, rank by rank in these racks, then the servers, then hosts that sum.

    Of those there is one for each rack, in the order of the racks' first workers.
    """

    racks: Sequence[int]  # of each worker
    servers: int
    degree: int | None = None  # of the tree in a rack; None: all at the first
    across: str = DIRECT
    degree_across: int = 2
    pieces: int = 1  # of each server's part
    multicast: bool = True
    on_hosts: bool = False  # sums are made by ranks of their own

    @property
    def workers(self) -> int:
        return len(self.racks)

    @cached_property
    def summing(self) -> range:
        """The ranks that do nothing but sum."""
        first = self.workers + self.servers
        return range(first, first + len(set(self.racks)) * self.on_hosts)

    @property
    def ranks(self) -> int:
        return self.workers + self.servers + len(self.summing)

    def serves(self, rank: int) -> bool:
        return self.workers <= rank < self.workers + self.servers

    @cached_property
    def _senders(self) -> list[int]:
        """All but the servers."""
        return [*range(self.workers), *self.summing]

    @property
    def blocks(self) -> int:
        return self.servers * self.pieces

    @cached_property
    def _members(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for worker, rack in enumerate(self.racks):
            found[rack].append(worker)
        for members, rank in zip(found.values(), self.summing, strict=False):
            members.insert(0, rank)
        return found

    @cached_property
    def roots(self) -> list[int]:
        """Those who sum for their racks."""
        return [members[0] for members in self._members.values()]

    @cached_property
    def _parents(self) -> Mapping[int, int]:
        """Of each worker within its rack, but for a root."""
        found: dict[int, int] = {}
        for members in self._members.values():
            degree = self.degree or len(members)
            for place, worker in enumerate(members[1:], start=1):
                found[worker] = members[(place - 1) // degree]
        return found

    @cached_property
    def _place_of_root(self) -> Mapping[int, int]:
        return {root: place for place, root in enumerate(self.roots)}

    def above(self, rank: int, server: int) -> int:
        """Where a worker, or who sums, sends what is for a server."""
        parent = self._parents.get(rank)
        if parent is not None:
            return parent
        first = server * len(self.roots) // self.servers if self.across == TREE else 0
        place = (self._place_of_root[rank] - first) % len(self.roots)
        if self.across == DIRECT or place == 0:
            return self.workers + server
        up = (place - 1) // self.degree_across
        return self.roots[(up + first) % len(self.roots)]

    @cached_property
    def _below(self) -> Mapping[tuple[int, int], list[int]]:
        """Who sends to a rank what is for a server."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for server in range(self.servers):
            for rank in self._senders:
                found[self.above(rank, server), server].append(rank)
        return found

    def below(self, rank: int, server: int) -> list[int]:
        return self._below.get((rank, server), [])

    def fed_by(self, server: int) -> Sequence[int]:
        """Those whom a server sends its part of the model to."""
        return self.below(self.workers + server, server) if self.multicast else range(self.workers)

    @cached_property
    def _up(self) -> dict[tuple[int, int], None]:
        return dict.fromkeys(
            (rank, self.above(rank, server))
            for rank in self._senders
            for server in range(self.servers)
        )

    @cached_property
    def _down(self) -> dict[tuple[int, int], None]:
        if self.multicast:
            return dict.fromkeys((above, rank) for rank, above in self._up)
        servers = range(self.workers, self.workers + self.servers)
        return dict.fromkeys(
            (server, worker) for server in servers for worker in range(self.workers)
        )

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Who sends to whom, each once: pushes, then pulls."""
        return list({**self._up, **self._down})

    @property
    def crosses(self) -> bool:
        """Whether somebody sends both gradients and models to somebody."""
        return not self._up.keys().isdisjoint(self._down)

    def pushed(self, rank: int) -> Iterator[tuple[int, int]]:
        """(block, its server) of all that pass a rank on the way up, in their order."""
        mine = [rank - self.workers] if self.serves(rank) else range(self.servers)
        for server in mine:
            for piece in range(self.pieces):
                yield server * self.pieces + piece, server

    def pulled(self, rank: int) -> Iterator[tuple[int, int]]:
        """On the way down: piece by piece."""
        return iter(sorted(self.pushed(rank), key=lambda one: (one[0] % self.pieces, one[1])))


def push(rank: int, how: Aggregation) -> Part:
    """Gradients, summed on their way up."""
    sends: list[Send] = []
    receives: list[Receive] = []
    for block, server in how.pushed(rank):
        first = len(receives)
        receives += (Receive(one, (block, 1), adds=True) for one in how.below(rank, server))
        if not how.serves(rank):
            after = tuple(range(first, len(receives)))
            sends.append(Send(how.above(rank, server), (block, 1), after))
    return Part(tuple(sends), tuple(receives))


def pull(rank: int, how: Aggregation) -> Part:
    """The model, copied on its way down."""
    if not how.multicast:
        return _straight(rank, how)
    sends: list[Send] = []
    receives: list[Receive] = []
    for block, server in how.pulled(rank):
        after: tuple[int, ...] = ()
        if not how.serves(rank):
            after = (len(receives),)
            receives.append(Receive(how.above(rank, server), (block, 1), adds=False))
        sends += (Send(one, (block, 1), after) for one in how.below(rank, server))
    return Part(tuple(sends), tuple(receives))


def _straight(rank: int, how: Aggregation) -> Part:
    parts = [(server * how.pieces, how.pieces) for server in range(how.servers)]
    if how.serves(rank):
        own = parts[rank - how.workers]
        return Part(sends=tuple(Send(worker, own) for worker in range(how.workers)))
    if rank in how.summing:
        return Part()
    return Part(
        receives=tuple(
            Receive(how.workers + server, part, adds=False) for server, part in enumerate(parts)
        )
    )
