"""What Giveway promises about speed and exactness, measured: `python -m bench`.

A benchmark is one file in this folder with a function `measure(effort)` that returns ratios, each
with its goal. Both sides of a ratio come from the same run, so that a busy machine hits both.
"""

import importlib
import pkgutil
from functools import cache

from bench.base import Measure


@cache
def available() -> dict[str, Measure]:
    """Every benchmark in this folder by its name."""
    found: dict[str, Measure] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name != "__main__":
            measure = getattr(importlib.import_module(f"{__name__}.{module.name}"), "measure", None)
            if measure is not None:
                found[module.name] = measure
    return dict(sorted(found.items()))
