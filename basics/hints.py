"""What somebody probably meant: known names, the nearest first."""

import difflib
from collections.abc import Iterable


def alike(found: object, names: list[str], cutoff: float = 0.5) -> list[str]:
    """Those of some names that may have been meant, the nearest first."""
    return difflib.get_close_matches(str(found)[:100], names, n=3, cutoff=cutoff)


def nearest(found: object, known: Iterable[object], most: int = 20) -> str:
    """ "; did you mean …?" and the known names, for the end of a complaint."""
    names = [str(name) for name in known]
    close = alike(found, names)
    hint = f"; did you mean {' or '.join(close)}? Known: " if close else "; known: "
    listed = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    return hint + listed if names else "; none are known"
