"""How functions are compiled that only compiled code calls.

numba counts who uses an array, with an atomic instruction at each use of a column, and these
functions do little else. They neither make arrays nor keep them: whoever calls from Python holds
them all the while. So here nothing is counted.
Those few that make arrays must have it counted, whoever calls them; unsaid, they would do as their
caller does.

A call hands over all tables, seven words for each array: the eighty pushes that this takes were
most of what a small simulation cost. So what is called for every connection or link becomes part of
its caller. For everything it would take half as long again to compile, and gain little more.
"""

from numba import njit

inner = njit(cache=True, _nrt=False)  # type: ignore[call-overload]
inlined = njit(cache=True, _nrt=False, forceinline=True)  # type: ignore[call-overload]
makes_arrays = njit(cache=True, _nrt=True)  # type: ignore[call-overload]
