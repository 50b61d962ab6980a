"""TAC (TicTac, Hashemi et al., MLSys 2019): transfers against the compute that they set free.

A goes before B if it holds up less: min(P_B, M_A) < min(P_A, M_B), where M is a transfer's time and
P the compute that waits for it alone; ties by the least that an operation needs besides. The first
by this rule is taken, and all is weighed again without it.
"""

from collections.abc import Sequence
from functools import cache

from policies.transfer.needs import as_ranks, forward_pass, joint_cost, sole_time
from policies.transfer.policy import Answers, TransferPolicy, Work


@cache
def order(work: Work) -> tuple[int, ...]:
    cost = [byte * 8e9 / work.rate_bps for byte in work.layer_bytes]
    operations = forward_pass(work)
    left = list(range(len(cost)))
    found: list[int] = []
    while left:
        outstanding = sum(1 << at for at in left)
        alone = sole_time(operations, len(cost), outstanding)
        joint = joint_cost(operations, cost, outstanding)
        first = left[0]
        for other in left[1:]:
            mine, its = min(alone[first], cost[other]), min(alone[other], cost[first])
            if mine < its or (mine == its and joint[other] < joint[first]):
                first = other
        found.append(first)
        left.remove(first)
    return as_ranks(found)


def ranks(work: Work, worker: int, iteration: int) -> Sequence[int]:
    return order(work)


POLICY = TransferPolicy(
    name="tac",
    title="TAC",
    description="reads weighed against the compute that waits for them",
    ranks=ranks,
    answers=Answers.GATED,
    weighs_compute=True,
)
