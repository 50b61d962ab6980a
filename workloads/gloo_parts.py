"""Where a bucket may be cut so that Gloo adds its numbers up in the same order as without a cut.

Gloo's ring cuts a vector into a chunk for each rank, and the sums of a chunk begin at its own rank.
From three ranks on, floats that are added in another order give other bits; so a part of a bucket
is not a stretch of it, but the same stretch of each of its chunks, one after another: what was in
a chunk of the bucket is then in the same chunk of the part. tests/test_torch_transfer.py holds this
to what Gloo does. Knows no torch.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise

from policies.transfer.parts import even

NUMBER_BYTE = 4
# As in gloo/allreduce.cc: a chunk is sent in at least two segments, none above this.
MOST_SEGMENT_BYTE = 2**20
LEAST_SEGMENTS = 2


@dataclass(frozen=True)
class Cut:
    """A part of a bucket: from `start` to `end` in each of its chunks, with zeros up to `room`."""

    start: int
    end: int
    room: int
    byte: int  # of the bucket's numbers, without zeros


def chunk_of(numbers: int, ranks: int) -> int:
    """How many of these numbers make a chunk; the last chunks may have fewer, or none."""
    segments = max(LEAST_SEGMENTS, -(-numbers * NUMBER_BYTE // (ranks * MOST_SEGMENT_BYTE)))
    return segments * -(-numbers // (ranks * segments))


def cuts(numbers: int, ranks: int, partition_byte: int) -> list[Cut]:
    """A bucket in as few parts as are not above the partition, but for a few zeros."""
    chunk = chunk_of(numbers, ranks)
    count = min(-(-numbers * NUMBER_BYTE // partition_byte), chunk, numbers)
    return [
        Cut(start, end, chunk_of(ranks * (end - start), ranks), held * NUMBER_BYTE)
        for start, end in pairwise(accumulate(even(chunk, count), initial=0))
        for held in [_held(numbers, ranks, chunk, start, end)]
    ]


def _held(numbers: int, ranks: int, chunk: int, start: int, end: int) -> int:
    """How many numbers lie there."""
    places = (at * chunk for at in range(ranks))
    return sum(max(0, min(numbers, place + end) - place - start) for place in places)
