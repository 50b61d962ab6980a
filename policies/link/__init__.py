"""Who waits at a link. A policy is one file here that ends with `POLICY = LinkPolicy(...)`.

Policies are pure: they turn a port into a discipline, which is data, and run nothing. Engines make
of it what they need: testbed/live/tc.py commands for a kernel, testbed/fluid/disciplines.py what
rates go by.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from policies.link.discipline import Demotion, Discipline, ServiceClass, one_queue, three_bands
from policies.link.policy import LinkPolicy, Situation
from policies.link.port import Port, ServerPort

__all__ = [
    "Demotion",
    "Discipline",
    "LinkPolicy",
    "Port",
    "ServerPort",
    "ServiceClass",
    "Situation",
    "link_policies",
    "one_queue",
    "rebuilt",
    "three_bands",
]


@cache
def link_policies() -> dict[str, LinkPolicy]:
    """Every link policy in this folder by the name used in experiment files."""
    found: dict[str, LinkPolicy] = {}
    for module in pkgutil.iter_modules(__path__):
        policy = getattr(importlib.import_module(f"{__name__}.{module.name}"), "POLICY", None)
        if policy is not None:
            found[policy.name] = policy
    return dict(sorted(found.items()))


def rebuilt(plain: Mapping[str, Any]) -> LinkPolicy:
    """The policy that `LinkPolicy.plain` described, in another process."""
    return link_policies()[plain["policy"]].told(plain["options"])
