"""What the next forward pass needs first goes first; whole tensors, one after another.

A large tensor lies at all servers, and its pieces go to all of them at once: in turn, workers that
are abreast would all send to the same server.
"""

from collections.abc import Sequence

from policies.transfer.policy import Answers, TransferPolicy, Work


def by_layer(work: Work, worker: int, iteration: int) -> Sequence[int]:
    return range(len(work.layer_bytes))


POLICY = TransferPolicy(
    name="layer",
    title="Layer order",
    description="what the next forward pass needs first, of whole tensors that are ready",
    ranks=by_layer,
    fuses=True,
    holds_pushes=True,
    lanes=True,
    answers=Answers.BY_RANK,
)
