"""Push and pull of a parameter-server job: every worker has a block for every server, and back.

The group is its workers, then its servers; block s is the part of the model that server s holds.
What a server waits for before it answers (everybody, nobody, those too far behind) is not a matter
of steps: see workloads/server.py.
"""

from workloads.collectives import Part, Receive, Send, cut

NUMBER_BYTE = 4  # float32: no number is cut in two


def push(rank: int, workers: int, servers: int) -> Part:
    """Gradients, worker by worker."""
    if rank < workers:
        return Part(sends=tuple(Send(workers + shard, (shard, 1)) for shard in range(servers)))
    own = (rank - workers, 1)
    return Part(receives=tuple(Receive(worker, own, adds=True) for worker in range(workers)))


def pull(rank: int, workers: int, servers: int) -> Part:
    """The model, server by server."""
    if rank < workers:
        shards = range(servers)
        return Part(receives=tuple(Receive(workers + s, (s, 1), adds=False) for s in shards))
    own = (rank - workers, 1)
    return Part(sends=tuple(Send(worker, own) for worker in range(workers)))


def shards(total_byte: int, servers: int) -> list[tuple[int, int]]:
    """The part of the model at each server: (start, length) in bytes, as even as numbers allow."""
    numbers, rest = divmod(total_byte, NUMBER_BYTE)
    parts = [(start * NUMBER_BYTE, length * NUMBER_BYTE) for start, length in cut(numbers, servers)]
    start, length = parts[-1]
    return [*parts[:-1], (start, length + rest)]
