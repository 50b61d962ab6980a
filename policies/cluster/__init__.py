"""Which job runs where, and when. A scheduler is one file here that ends with `SCHEDULER = …`.

Schedulers are pure: snapshot, event and their own memory in, a decision out. The testbed owns the
mechanism and checks every decision. `placements.py` is about the places of parameter servers.
"""

import importlib
import pkgutil
from functools import cache

from policies.cluster.scheduler import Scheduler

__all__ = ["Scheduler", "schedulers"]


@cache
def schedulers() -> dict[str, Scheduler]:
    """Every scheduler in this folder by the name used in experiment files."""
    found: dict[str, Scheduler] = {}
    for module in pkgutil.iter_modules(__path__):
        scheduler = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SCHEDULER", None)
        if scheduler is not None:
            found[scheduler.name] = scheduler
    return dict(sorted(found.items()))
