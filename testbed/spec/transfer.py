"""How a job sends its tensors, as experiment files say it: a transfer policy, and its options."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from basics import units
from basics.options import Options, told
from policies.transfer import TransferPolicy, transfer_policies
from testbed.spec.chosen import Chosen
from testbed.spec.values import known
from workloads.profiles import Profile


class TransferChoice(Chosen):
    what: ClassVar[str] = "a transfer policy"

    policy: Annotated[
        str, BeforeValidator(known("transfer policy", lambda: list(transfer_policies())))
    ]

    @classmethod
    def declared(cls, name: str) -> Options | None:
        found = transfer_policies().get(name)
        return None if found is None else found.options

    @property
    def transfer_policy(self) -> TransferPolicy:
        return transfer_policies()[self.policy].told(self.options)

    @property
    def title(self) -> str:
        """For reports; who has given it a label wants to see that."""
        return self.transfer_policy.title if self.label == self.policy else self.label

    @property
    def description(self) -> str:
        policy = self.transfer_policy
        said = ", ".join(f"{k} {v}" for k, v in told(policy.options, self.options).items())
        return policy.description + (f" ({said})" if said else "")

    def one_at_a_time(
        self, layer_bytes: Sequence[int], bucket_byte: int | None = None
    ) -> str | None:
        """What to say of a credit that the file gives and that is less than a part.

        Of a layer, or where they go in buckets, of one as large as DDP may make it.
        """
        policy = self.transfer_policy
        if bucket_byte is not None:
            layer_bytes = [min(sum(layer_bytes), max(bucket_byte, *layer_bytes))]
        largest = max(part.byte for part in policy.parts(layer_bytes))
        if policy.credit_byte in (1, policy.options["credit"].default, largest):
            return None
        if policy.credit_byte > largest:
            return None
        return (
            f"transfer {self.label}: credit {units.format_size(policy.credit_byte)} is below a "
            f"part of {units.format_size(largest)}: one part at a time"
        )

    def fault(
        self, profile: Profile, backend: str = "native", *, checks_models: bool
    ) -> str | None:
        """Why a job with this profile cannot send so."""
        as_ready = TransferChoice.named("fifo")
        if backend == "horovod" and self.model_copy(update={"label": "fifo"}) != as_ready:
            return (
                f"found {self.label} beside backend: horovod, which has no parts, credit or "
                "priorities: it sends whole tensors as they become ready, as fifo does"
            )
        timed = any(layer.forward_ns for layer in profile.layers)
        if self.transfer_policy.weighs_compute and not timed:
            return f"found {self.policy}, which weighs compute; {profile.name} has no times"
        if checks_models:
            return "found beside check: true; sums are checked of whole models: leave one out"
        return None
