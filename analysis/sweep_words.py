"""What a sweep says in sentences: its claims at all points, and who has nothing at some."""

from collections.abc import Sequence

from analysis import absent
from analysis.claims import NOISE, ToldClaim, told_all
from analysis.sweep import Grid

MOST_PLACES = 8  # of a claim that are listed


def told_claims(grid: Grid) -> list[tuple[bool, str]]:
    """Every claim of the experiment file: whether it holds everywhere, and that in words."""
    found: dict[str, list[tuple[str, ToldClaim]]] = {}
    for labels, summary in grid.summaries.items():
        for told in told_all(summary):
            found.setdefault(told.said, []).append((", ".join(labels), told))
    return [(all(one.holds for _, one in places), _told(places)) for places in found.values()]


def _told(places: Sequence[tuple[str, ToldClaim]]) -> str:
    """One claim at all points; where it fails, those points with what was measured there."""
    failing = [(at, told) for at, told in places if not told.holds]
    noisy = sum(told.certainty == NOISE for _, told in places)
    said = (
        f"claim fails at {len(failing)} of {len(places)} points: {places[0][1].said}"
        if failing
        else f"claim holds at all {len(places)} points: {places[0][1].said}"
    )
    if noisy:
        said += f"; within noise at {noisy}"
    shown = failing[:MOST_PLACES] or places[:MOST_PLACES]
    more = len(failing or places) - len(shown)
    listed = "; ".join(f"at {at}: {told.found}" for at, told in shown)
    return f"{said}; {listed}" + (f"; and {more} more" if more else "")


def failed_claims(grid: Grid) -> list[str]:
    return [said for holds, said in told_claims(grid) if not holds]


def told_absent(grid: Grid) -> list[str]:
    """Who has nothing at some points: a sentence of the first, and how many there are."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for labels, summary in grid.summaries.items():
        for entry in summary["absent"]:
            one = {**summary, "absent": [entry]}
            at = found.setdefault((entry["kind"], entry["who"]), [])
            at.append((", ".join(labels), absent.briefly(one)))
    return [
        f"At {len({at for at, _ in places})} of {len(grid.points)} points, such as "
        f"{places[0][0]}: {places[0][1]}"
        for places in found.values()
    ]
