"""Transfer policies: in which order, in which parts and how many at once a job sends its tensors.

One file each, pure: what a job's layers are in, an order out. Who sends and when is the ranks'
(workloads/agreed.py, workloads/parted.py). docs/transfer.md says whose idea each of them is.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from policies.transfer.parts import (
    TensorPart,
    cut_layers,
    groups_from_first,
    groups_from_last,
    layers_at_servers,
    slices,
)
from policies.transfer.policy import Answers, TransferPolicy, Work, sending_options
from policies.transfer.queue import PartQueue

__all__ = [
    "Answers",
    "PartQueue",
    "TensorPart",
    "TransferPolicy",
    "Work",
    "cut_layers",
    "groups_from_first",
    "groups_from_last",
    "layers_at_servers",
    "sending_options",
    "slices",
    "transfer_policies",
    "transfer_policy",
]


@cache
def transfer_policies() -> dict[str, TransferPolicy]:
    """Every transfer policy in this folder by the name used in experiment files."""
    found: dict[str, TransferPolicy] = {}
    for module in pkgutil.iter_modules(__path__):
        policy = getattr(importlib.import_module(f"{__name__}.{module.name}"), "POLICY", None)
        if policy is not None:
            found[policy.name] = policy
    return dict(sorted(found.items()))


def transfer_policy(plain: Mapping[str, Any]) -> TransferPolicy:
    """The policy that `TransferPolicy.plain` described, in another process."""
    return transfer_policies()[plain["policy"]].told(plain["options"])
