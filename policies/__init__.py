"""Who yields. A link policy is one file in this folder that ends with `POLICY = LinkPolicy(...)`.

Policies are pure: they turn a port into `tc` commands and run nothing.
"""

import importlib
import pkgutil
from functools import cache

from policies.base import BAND_TOS, LinkPolicy, Moment, Port, Queue, ServerPort

__all__ = ["BAND_TOS", "LinkPolicy", "Moment", "Port", "Queue", "ServerPort", "available"]


@cache
def available() -> dict[str, LinkPolicy]:
    """Every link policy in this folder by the name used in experiment files."""
    found: dict[str, LinkPolicy] = {}
    for module in pkgutil.iter_modules(__path__):
        policy = getattr(importlib.import_module(f"{__name__}.{module.name}"), "POLICY", None)
        if policy is not None:
            found[policy.name] = policy
    return dict(sorted(found.items()))
