"""A simulation's state as one argument: what Python calls takes this, not twenty-odd arrays.

Each call from Python would take the tuple of arrays apart and look at the type of every one; that
takes longer than most calls do. Here it is done once, when the state is made.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba import njit, types
from numba.experimental import structref

from testbed.fluid.state import State


@structref.register
class HeldType(types.StructRef):
    pass


class Held(structref.StructRefProxy):
    state: State

    def __new__(cls, state: State) -> "Held":
        """Only without the compiler: compiled code has its own way, see `hold`."""
        assert numba.config.DISABLE_JIT  # type: ignore[attr-defined]
        made: Held = object.__new__(cls)
        made.state = state
        return made


structref.define_proxy(Held, HeldType, ["state"])  # type: ignore[no-untyped-call]


@njit(cache=True)
def hold(state: State) -> Held:
    return Held(state)


def direct(function: Any, *like: Any) -> Callable[..., Any]:
    """Compiled code for arguments like these. It is called without a look at their types.

    For what is called a hundred thousand times a second: looking takes as long as calling.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        plain: Callable[..., Any] = function
        return plain
    types_of = [numba.typeof(one) for one in like]  # type: ignore[no-untyped-call]
    compiled: Callable[..., Any] = function.compile(tuple(types_of))
    return compiled
