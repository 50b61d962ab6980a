"""No order at all, the baseline of TicTac: another one for each worker and iteration."""

from collections.abc import Sequence

import numpy as np

from policies.transfer.policy import Answers, TransferPolicy, Work


def shuffled(work: Work, *key: int) -> Sequence[int]:
    """Ranks drawn from the seed and a key."""
    drawn = np.random.default_rng([work.seed, *key]).permutation(len(work.layer_bytes))
    return [int(rank) for rank in drawn]


POLICY = TransferPolicy(
    name="random",
    title="Random",
    description="reads in an order drawn for each worker and iteration",
    ranks=shuffled,
    answers=Answers.GATED,
)
