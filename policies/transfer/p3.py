"""P3 (Jayarajan et al., MLSys 2019): small slices, the first layers first, one committed at a time.

Slices of 40,000 numbers lie at the servers in turn. A server answers a push with the new values as
soon as it has them, in order of completion.
"""

from policies.transfer.layer import by_layer
from policies.transfer.parts import slices
from policies.transfer.policy import TransferPolicy, sending_options

POLICY = TransferPolicy(
    name="p3",
    title="P3",
    description="slices by layer, one handed over at a time",
    ranks=by_layer,
    options=sending_options(partition_byte=160_000),
    holds_pushes=True,
    lay_out=slices,
)
