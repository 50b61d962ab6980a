"""What a training job of a cluster has to do: iterations, and what each computes and sends.

Where it runs is decided later, and how long it takes is the network's to say. What can be said
beforehand is calculated here: in an iteration alone, gradients go one after another at the rate of
a cable, each from when it is computed, and every worker has a host of its own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workloads.collectives.parameter_server import shards
from workloads.profiles import Layer

STATE_MODELS = 3  # of real training: the weights, and Adam's two numbers for each of them

Pair = tuple[int, int]  # who sends, to whom: ranks


@dataclass(frozen=True)
class TrainingWork:
    entry: int  # of the cluster's jobs
    iterations: int
    layers: tuple[Layer, ...]
    workers: int
    servers: int  # 0: workers sum in a ring
    rate_bps: int  # of a host's cable
    gradient_byte: int | None = None  # that a worker pushes; None: as much as the model
    checkpoint_byte: int = 0  # of a host that has none of the job; 0: checkpoints take no bytes

    @cached_property
    def model_byte(self) -> int:
        return sum(layer.bytes for layer in self.layers)

    @cached_property
    def compute_ns(self) -> int:
        """Of an iteration of one worker."""
        return sum(layer.forward_ns + layer.backward_ns for layer in self.layers)

    @cached_property
    def between(self) -> Mapping[Pair, int]:
        """Bytes of an iteration from rank to rank."""
        workers = range(self.workers)
        if not self.servers:
            share = 2 * (self.workers - 1) * self.model_byte // self.workers
            return {(rank, (rank + 1) % self.workers): share for rank in workers if share}
        pushed_byte = self.model_byte if self.gradient_byte is None else self.gradient_byte
        pushed, pulled = (shards(byte, self.servers) for byte in (pushed_byte, self.model_byte))
        found = {}
        for worker in workers:
            for at, server in enumerate(range(self.workers, self.workers + self.servers)):
                found[worker, server] = pushed[at][1]
                found[server, worker] = pulled[at][1]
        return found

    def rank_hosts(self, hosts: Sequence[int]) -> tuple[int, ...]:
        """Of workers, then of servers: each server is beside the worker of its number."""
        return (*hosts, *hosts[: self.servers])

    def far(self, hosts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """(from host, to host, bytes) of an iteration, of what leaves its host."""
        places = self.rank_hosts(hosts)
        for (a, b), byte in self.between.items():
            if places[a] != places[b]:
                yield places[a], places[b], byte

    @cached_property
    def sent_byte(self) -> int:
        """In an iteration, by the host that sends or gets the most, if no two workers share one."""
        out: Counter[int] = Counter()
        into: Counter[int] = Counter()
        for a, b, byte in self.far(range(self.workers)):
            out[a] += byte
            into[b] += byte
        return max([0, *out.values(), *into.values()])

    @property
    def communicate_ns(self) -> int:
        return self.sent_byte * 8 * 10**9 // self.rate_bps

    @cached_property
    def iteration_ns(self) -> int:
        """Of an iteration alone."""
        ready_ns = sum(layer.forward_ns for layer in self.layers)
        sent_ns = ready_ns
        for layer in reversed(self.layers):
            ready_ns += layer.backward_ns
            share_ns = self.communicate_ns * layer.bytes // self.model_byte
            sent_ns = max(sent_ns, ready_ns) + share_ns
        return sent_ns
