"""TIC (TicTac, Hashemi et al., MLSys 2019): what operations need together, without any times.

Every transfer costs one, compute nothing; sorted once by the least that an operation needs.
"""

from collections.abc import Sequence
from functools import cache

from policies.transfer.needs import as_ranks, forward_pass, joint_cost
from policies.transfer.policy import Answers, TransferPolicy, Work


@cache
def order(work: Work) -> tuple[int, ...]:
    count = len(work.layer_bytes)
    joint = joint_cost(forward_pass(work), [1.0] * count, (1 << count) - 1)
    return as_ranks(sorted(range(count), key=lambda layer: (joint[layer], layer)))


def ranks(work: Work, worker: int, iteration: int) -> Sequence[int]:
    return order(work)


POLICY = TransferPolicy(
    name="tic",
    title="TIC",
    description="reads in the order of what operations need together, without times",
    ranks=ranks,
    answers=Answers.GATED,
)
