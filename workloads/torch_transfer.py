"""A transfer policy below DistributedDataParallel: its buckets in parts, by priority, with credit.

DDP's communication hook hands over each bucket and takes a promise of its sums. Here a bucket is
cut as the policy's `partition` says; its parts wait in the policy's queue, with the rank of the
layer that is wanted first, and go to Gloo's all-reduce as long as there is `credit`.

Gloo matches collectives by the order in which they are begun, so that has to be the same on every
rank. Rank 0 decides, by what is ready there, and tells the others over connections of their own,
as ByteScheduler does; a worker that is behind begins the part when its bucket is full. Nobody waits
for ever: buckets fill up without any waiting, in the same order everywhere, and what rank 0 has
begun needs nothing but buckets.

DDP's step waits for all buckets, so an order can change who goes first within a backward pass, and
never across iterations.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from policies.transfer import PartQueue, TensorPart, Work, transfer_policy
from workloads.gloo_parts import Cut, chunk_of, cuts
from workloads.stack_worker import StackConfig, Transfer


@dataclass(eq=False)
class Bucket:
    """Gradients that DDP waits for, laid out with a row for each of Gloo's chunks."""

    buffer: torch.Tensor
    rows: torch.Tensor
    layers: tuple[int, ...]
    ready_ns: int
    left: int  # parts that are not back
    summed: Any = field(default_factory=torch.futures.Future)


@dataclass(frozen=True)
class BucketPart:
    bucket: Bucket
    part: TensorPart
    cut: Cut


class PartSender:
    """One worker's side. DDP, Gloo's threads and one of its own meet here, hence the condition."""

    def __init__(
        self,
        settings: StackConfig,
        now_ns: Callable[[], int],
        record: Callable[[Transfer], None],
    ) -> None:
        assert settings.transfer is not None
        self._ranks = settings.workers
        self._policy = transfer_policy(settings.transfer)
        self._work = Work(
            tuple(size for size, _, _ in settings.layers),
            tuple(forward_ns for _, forward_ns, _ in settings.layers),
            settings.rate_bps,
            settings.seed,
        )
        self._now_ns = now_ns
        self._record = record
        self._control = dist.new_group(backend="gloo")
        self._changed = threading.Condition()
        self._leads = settings.rank == 0
        self._queue = PartQueue(self._policy.credit_byte)
        self._ready: dict[int, BucketPart] = {}  # and not begun, by number
        self._open: list[Bucket] = []
        self._numbered = 0
        self._iteration = 0
        self._failed: Exception | None = None
        threading.Thread(target=self._run, name="sender", daemon=True).start()

    def send(self, buffer: torch.Tensor, layers: tuple[int, ...], *, last: bool) -> Any:
        """The future of a bucket's sums; `last` of its iteration."""
        found = cuts(buffer.numel(), self._ranks, self._policy.partition_byte)
        rows = torch.zeros(self._ranks, chunk_of(buffer.numel(), self._ranks), dtype=buffer.dtype)
        rows.view(-1)[: buffer.numel()] = buffer
        bucket = Bucket(buffer, rows, layers, self._now_ns(), len(found))
        with self._changed:
            if self._failed is not None:
                raise self._failed
            parts = [
                TensorPart(self._numbered + at, layers, cut.byte, whole=False)
                for at, cut in enumerate(found)
            ]
            self._numbered += len(parts)
            self._open.append(bucket)
            for part, cut in zip(parts, found, strict=True):
                self._ready[part.number] = BucketPart(bucket, part, cut)
            if self._leads:
                ranks = self._policy.ranked(self._work, 0, self._iteration)
                self._queue.add(parts, ranks)
            self._iteration += last
            self._changed.notify()
        return bucket.summed

    def _run(self) -> None:
        try:
            while True:
                self._begin(self._decided() if self._leads else self._heard())
        except Exception as error:
            self._fail(error)

    def _decided(self) -> BucketPart:
        """Rank 0: the next part, which the others are told."""
        with self._changed:
            while (part := self._queue.take()) is None:
                self._changed.wait()
        number = torch.tensor([part.number])
        others = range(1, self._ranks)
        for sent in [dist.isend(number, other, group=self._control) for other in others]:
            assert sent is not None
            sent.wait()
        return self._ready[part.number]

    def _heard(self) -> BucketPart:
        number = torch.zeros(1, dtype=torch.int64)
        dist.recv(number, 0, group=self._control)
        with self._changed:
            self._changed.wait_for(lambda: int(number) in self._ready)
        return self._ready[int(number)]

    def _begin(self, one: BucketPart) -> None:
        start_ns = self._now_ns()
        with self._changed:
            del self._ready[one.part.number]
        cut = one.cut
        numbers = torch.zeros(self._ranks, cut.room, dtype=one.bucket.rows.dtype)
        numbers[:, : cut.end - cut.start] = one.bucket.rows[:, cut.start : cut.end]
        work = dist.all_reduce(numbers, async_op=True)
        assert work is not None
        work.get_future().then(lambda sums: self._arrived(one, start_ns, sums))

    def _arrived(self, one: BucketPart, start_ns: int, sums: Any) -> None:
        """In a thread of Gloo's."""
        try:
            end_ns = self._now_ns()
            bucket, cut = one.bucket, one.cut
            [numbers] = sums.value()
            bucket.rows[:, cut.start : cut.end] = numbers[:, : cut.end - cut.start]
            with self._changed:
                bucket.left -= 1
                whole = not bucket.left
                times_ns = (bucket.ready_ns, start_ns, end_ns)
                self._record(Transfer(bucket.layers, cut.byte, *times_ns, completes=whole))
                if whole:
                    self._open.remove(bucket)
                if self._leads:
                    self._queue.give_back([one.part])
                    self._changed.notify()
            if whole:
                bucket.buffer.copy_(bucket.rows.view(-1)[: bucket.buffer.numel()])
                bucket.summed.set_result(bucket.buffer)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """A peer is gone: whoever waits for a bucket hears of it, and so does the next."""
        with self._changed:
            self._failed = self._failed or error
            waiting, self._open = self._open, []
        for bucket in waiting:
            bucket.summed.set_exception(error)
