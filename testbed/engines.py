"""The engines by name, imported only when one is wanted: not every machine has every library."""

import importlib
from typing import cast

from basics.errors import BadInput
from testbed.engine import Engine

MODULES = {
    "realtime": "testbed.realtime.engine",
    "virtual": "testbed.virtual.engine",
    "fluid": "testbed.fluid.engine",
}
DESCRIPTIONS = {
    "realtime": "Mininet on this machine's kernel; time is dilated where it is too slow",
    "virtual": "the same network in a Linux kernel with a virtual clock: exact, no root",
    "fluid": "a simulation of flows, no packets: thousands of hosts, whole grids in seconds",
}
AUTO = "auto"
CHOICE = ", ".join([AUTO, *MODULES])  # for the help of commands


def resolve(name: str, *, containers: bool = False) -> str:
    """The engine that a name means: `auto` is virtual where its kernel is built.

    Containers live on the machine's own kernel, so with them it is realtime.
    """
    if name == AUTO:
        from testbed.virtual.build import find

        return "virtual" if find() and not containers else "realtime"
    if name not in MODULES:
        raise BadInput(f"--engine {name}: unknown; known are {', '.join([AUTO, *MODULES])}")
    return name


def get(name: str) -> Engine:
    """The engine itself: a module with the functions of `Engine`."""
    return cast(Engine, importlib.import_module(MODULES[resolve(name)]))
