"""The page of a reproduction: published numbers beside ours, and the pictures."""

from collections.abc import Sequence

from analysis import words
from analysis.metrics import SHARE, TIME, Unit
from analysis.page import template
from analysis.views import Panel


def render(
    *,
    name: str,
    source: str,
    shows: str,
    engine: str,
    command: str,
    note: str,
    rows: Sequence[tuple[str, ...]],
    panels: Sequence[Panel],
) -> str:
    held = sum(row[-1] == "reproduced" for row in rows)
    answer = (
        f"{held} of {len(rows)} published numbers are reproduced within their tolerance."
        if rows
        else "No published numbers are at hand: these are ours alone."
    )
    return template("reproduction.html").render(
        name=name, source=source, shows=shows, engine=engine, command=command, note=note,
        rows=rows, panels=panels, answer=answer,
    )  # fmt: skip


def number(value: float | None, kind: str, unit: Unit) -> str:
    """A number as people write it: with one digit more than the page's other percentages."""
    if value is None:
        return words.NONE
    if kind != "value":
        return f"{100 * value:+.1f} %"
    if unit is SHARE:
        return f"{100 * value:.2f} %"
    if unit is TIME:
        length, name = words.time_unit(value)
        return f"{value / length:.4g} {name}" if name != "ms" else f"{value / length:.1f} ms"
    return f"{value:.4g}"
