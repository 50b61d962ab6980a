"""One order for all workers and iterations, whichever: TicTac's baseline without its own rules."""

from collections.abc import Sequence

from policies.transfer.any_order import shuffled
from policies.transfer.policy import Answers, TransferPolicy, Work


def ranks(work: Work, worker: int, iteration: int) -> Sequence[int]:
    return shuffled(work)


POLICY = TransferPolicy(
    name="random-fixed",
    title="One random order",
    description="reads in one order, drawn once and the same for all workers and iterations",
    ranks=ranks,
    answers=Answers.GATED,
)
