"""ByteScheduler (Peng et al., SOSP 2019): parts by layer, as many on their way as credit allows.

A part is under way from its push until its new values are here, and gives its credit back then.
"""

from policies.transfer.layer import by_layer
from policies.transfer.parts import slices
from policies.transfer.policy import TransferPolicy, sending_options

POLICY = TransferPolicy(
    name="bytescheduler",
    title="ByteScheduler",
    description="parts by layer, as many on their way as the credit allows",
    ranks=by_layer,
    options=sending_options(partition_byte=4_000_000, credit_byte=16_000_000),
    holds_pushes=True,
    until_answered=True,
    lay_out=slices,
)
