"""A training job as its ranks know it: plain data, the same for every engine.

Ranks 0 to `workers` - 1 are the workers; a job with parameter servers has those after them, and
behind those hosts that do nothing but sum, if it has such.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from policies.transfer import (
    Answers,
    TensorPart,
    TransferPolicy,
    Work,
    groups_from_first,
    groups_from_last,
    transfer_policy,
)
from workloads import collectives
from workloads.collectives import Collective, Part, aggregation, parameter_server
from workloads.collectives.aggregation import Aggregation
from workloads.compute import Stretch, forward_passes, group_by_group, layer_by_layer
from workloads.profiles import Layer

PARAMETER_SERVER = "parameter-server"
READY = "ready"
FIXED_GROUPS = {"from-first": groups_from_first, "from-last": groups_from_last}
FIRST_COME: Mapping[str, Any] = {"policy": "fifo", "options": {}}


@dataclass(frozen=True)
class JobPlan:
    name: str
    aggregation: str  # parameter-server, or the name of a collective that reduces
    workers: int
    layers: tuple[Layer, ...]
    fusion_byte: int
    barrier: bool
    start_ns: int
    steps: int | None
    check: bool  # test mode: numbers are real, and what becomes of them is checked
    bands: tuple[str, ...]  # of the link policy, first served first
    band: str  # that the job sends in
    servers: int = 0
    gradient_byte: int | None = None  # that a worker pushes in a step; None: as much as the model
    staleness: int | None = 0  # how far a worker may be ahead; None: as far as it gets
    steered_by: Mapping[str, Any] | None = None  # the policy that moves workers between bands
    control_band: str | None = None  # of what ranks tell each other, where that differs
    transfer: Mapping[str, Any] = field(default_factory=lambda: dict(FIRST_COME))
    parted: bool = False  # servers get and answer layers or slices, not the model as a whole
    groups: str = READY  # what is fused: what is ready, or groups that are fixed beforehand
    reads: bool = False  # forward passes alone: workers ask for parts instead of pushing gradients
    update_byte_s: int | None = None  # how fast a server updates, one part after another
    rate_bps: int = 10**9  # of a host's link
    seed: int = 0
    compute_ns: tuple[int, int] | None = None  # of an iteration, drawn; none: the layers' own
    every_ns: int = 0  # an iteration begins no sooner after the one before
    racks: tuple[int, ...] = ()  # of each worker, where that matters
    reduce: Mapping[str, Any] | None = None  # how servers' workers aggregate; none: they do not
    first_iteration: int = 0  # of a job that goes on: what it did elsewhere, or before
    first_transfer: int = 0  # likewise, where its transfers are numbered
    retuned: bool = False  # others may put it into another band

    @cached_property
    def stretches(self) -> list[Stretch]:
        """What each of its workers computes in an iteration."""
        if self.has_servers and not self.parted:
            return group_by_group(self.layers, self.fusion_byte)
        if self.reads:
            return forward_passes(self.layers, barrier=self.barrier)
        return layer_by_layer(self.layers, barrier=self.barrier)

    @cached_property
    def transfer_policy(self) -> TransferPolicy:
        return transfer_policy(self.transfer)

    @cached_property
    def work(self) -> Work:
        """What its transfer policy gets to know."""
        forward_ns = tuple(layer.forward_ns for layer in self.layers)
        return Work(tuple(self.layer_bytes), forward_ns, self.rate_bps, self.seed)

    def ranks_in(self, worker: int, iteration: int) -> Sequence[int] | None:
        """Of its layers, the smallest goes first; None: first come, first served."""
        return self.transfer_policy.ranked(self.work, worker, iteration)

    @cached_property
    def transfer_parts(self) -> list[TensorPart]:
        """What is sent in an iteration, and to parameter servers where."""
        if self.parted:
            return self.transfer_policy.parts_at(self.layer_bytes, self.servers)
        if self.groups != READY and self.transfer_policy.fuses:
            return FIXED_GROUPS[self.groups](self.layer_bytes, self.fusion_byte)
        return self.transfer_policy.parts(self.layer_bytes)

    @property
    def asks(self) -> bool:
        """Whether its workers ask for new values when an iteration begins, and for all at once."""
        return self.parted and not self.reads and self.transfer_policy.answers is Answers.GATED

    @property
    def question(self) -> int:
        """What such a message is called, beside the numbers of parts."""
        return len(self.transfer_parts)

    @cached_property
    def parts_of(self) -> list[list[TensorPart]]:
        """Layer by layer, the parts that have something of it."""
        found: list[list[TensorPart]] = [[] for _ in self.layers]
        for part in self.transfer_parts:
            for layer in part.layers:
                found[layer].append(part)
        return found

    def drawn_ns(self, worker: int, iteration: int) -> int | None:
        """How long a worker computes in an iteration, where that is drawn: from the seed alone."""
        if self.compute_ns is None:
            return None
        low_ns, high_ns = self.compute_ns
        draw = np.random.default_rng([self.seed, zlib.crc32(self.name.encode()), worker, iteration])
        return int(draw.integers(low_ns, high_ns, endpoint=True))

    @property
    def one_by_one(self) -> bool:
        """Whether a collective begins only when the one before it is done."""
        return self.transfer_policy.credit_byte == 1

    @property
    def priority(self) -> int:
        return self.bands.index(self.band)

    @property
    def has_servers(self) -> bool:
        return self.aggregation == PARAMETER_SERVER

    @property
    def by_message(self) -> bool:
        """Whether its ranks send messages themselves; others play steps of collectives."""
        return self.has_servers and self.reduce is None

    @property
    def phases(self) -> int:
        """Of a job's collectives, taken in turn: all-reduces, or pushes and pulls."""
        return 1 if self.reduce is None else 2

    @cached_property
    def aggregating(self) -> Aggregation:
        """How what goes to its servers is summed on the way."""
        assert self.reduce is not None
        most = max(sum(self.layer_bytes[layer] for layer in group) for group in self.pushed_groups)
        pieces = -(-most // (self.servers * self.reduce["chunk_byte"]))
        told = {key: value for key, value in self.reduce.items() if key != "chunk_byte"}
        return Aggregation(self.racks, self.servers, pieces=pieces, **told)

    @cached_property
    def pushed_groups(self) -> list[tuple[int, ...]]:
        """The layers that are pushed together, in the order of an iteration."""
        stretches = group_by_group(self.layers, self.fusion_byte)
        return [stretch.gives for stretch in stretches if stretch.gives]

    @property
    def ranks(self) -> int:
        return self.workers + self.servers if self.reduce is None else self.aggregating.ranks

    def serves(self, rank: int) -> bool:
        return self.workers <= rank < self.workers + self.servers

    @cached_property
    def collective(self) -> Collective:
        """What its workers aggregate by, where they do so among themselves."""
        return collectives.available()[self.aggregation]

    def part(self, rank: int, number: int = 0) -> Part:
        """Of its collective of this number, or of the push to its servers."""
        if self.reduce is not None:
            direction = aggregation.pull if number % self.phases else aggregation.push
            return direction(rank, self.aggregating)
        if self.has_servers:
            return parameter_server.push(rank, self.workers, self.servers)
        return self.collective.part_in(rank, self.workers, self.racks)

    @property
    def blocks(self) -> int:
        """Of the vectors of its collectives."""
        if self.reduce is not None:
            return self.aggregating.blocks
        return self.collective.blocks(self.workers)

    @cached_property
    def layer_bytes(self) -> list[int]:
        return [layer.bytes for layer in self.layers]

    @cached_property
    def shards(self) -> list[tuple[int, int]]:
        """The part of the model at each server: (start, length) in bytes."""
        return parameter_server.shards(sum(self.layer_bytes), self.servers)

    @cached_property
    def gradient_bytes(self) -> list[int]:
        """What is pushed of each layer: each is made smaller by as much as all are."""
        model_byte = sum(self.layer_bytes)
        total_byte = model_byte if self.gradient_byte is None else self.gradient_byte
        ends = [end * total_byte // model_byte for end in accumulate(self.layer_bytes)]
        return [end - start for start, end in pairwise([0, *ends])]

    @cached_property
    def gradient_shards(self) -> list[tuple[int, int]]:
        """What each server is pushed of a gradient: (start, length) in bytes."""
        return parameter_server.shards(sum(self.gradient_bytes), self.servers)

    @property
    def _servers(self) -> range:
        return range(self.workers, self.workers + self.servers)

    @cached_property
    def edges(self) -> dict[tuple[int, int], None]:
        """Who sends bytes to whom, in order."""
        if not self.has_servers:
            return dict.fromkeys(self.collective.edges(self.workers, self.racks))
        if self.reduce is not None:
            return dict.fromkeys(self.aggregating.edges)
        up = [(worker, server) for worker in range(self.workers) for server in self._servers]
        return dict.fromkeys([*up, *((server, worker) for worker, server in up)])

    @cached_property
    def data_pairs(self) -> list[tuple[int, int]]:
        """Ranks that send each other bytes, once, whoever sends first, first."""
        found: dict[tuple[int, int], None] = {}
        for first, second in self.edges:
            if (second, first) not in found:
                found[first, second] = None
        return list(found)

    @property
    def control_pairs(self) -> list[tuple[int, int]]:
        """Ranks that tell each other things.

        All with rank 0, who decides what is sent next; a worker that changes its band with its
        servers, who answer it in the same.
        """
        if self.reduce is not None:  # who computes nothing follows the first worker
            others = range(self.workers, self.ranks)
            return [(0, other) for other in others] if self.steered_by else []
        if self.has_servers:
            return self.data_pairs if self.steered_by or self.retuned else []
        return [(rank, 0) for rank in range(1, self.workers)]
