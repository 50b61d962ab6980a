"""First come, first served: tensors go in the order in which backward passes make them."""

from policies.transfer.policy import TransferPolicy

POLICY = TransferPolicy(
    name="fifo",
    title="FIFO",
    description="in the order in which gradients become ready",
    fuses=True,
)
