"""The figures of a report as files: SVG and PDF to be set into a text, CSV to be drawn again.

The CSV of a figure is read off the figure itself, so that every one has its own and it holds
exactly what is drawn: a row a point, bar or label, in the units of the axes. What tells readers
one series from another, its colour, has a meaning, and that is the column `series`.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import FixedLocator

from analysis.look import COLOURS, Look, Picture, styled
from basics.files import whole, write_whole, writing

COLUMNS = ("kind", "series", "x", "x_end", "y", "y_end", "row", "text")
UNDATED: dict[str, dict[str, None]] = {  # the same figure is the same file
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "CreationDate", "Producer")),
}
Row = dict[str, Any]


@styled
def write(shown: Any, looks: Mapping[str, Look], folder: Path) -> list[Path]:
    """Write every figure among what a page shows; returns the files."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for picture in _pictures(shown):
        if picture.figure is None:
            continue
        for kind, metadata in UNDATED.items():
            path = folder / f"{picture.slug}.{kind}"
            with whole(path) as beside:
                picture.figure.savefig(beside, format=kind, metadata=metadata, facecolor="white")
            written.append(path)
        path = folder / f"{picture.slug}.csv"
        written.append(write_whole(path, as_csv(picture.figure, looks)))
    return written


def _pictures(shown: Any) -> Iterator[Picture]:
    if isinstance(shown, Picture):
        yield shown
    elif isinstance(shown, Mapping):
        for value in shown.values():
            yield from _pictures(value)
    elif isinstance(shown, list | tuple):
        for value in shown:
            yield from _pictures(value)


def as_csv(figure: Figure, looks: Mapping[str, Look]) -> str:
    """What is drawn, with the title and what the axes are in lines that begin with #."""
    text = io.StringIO()
    for axes in figure.axes:
        for name, said in (
            ("figure", axes.get_title() or axes.get_title("left")),
            ("x", axes.get_xlabel()),
            ("y", axes.get_ylabel()),
        ):
            if said:
                print(f"# {name}: {' '.join(said.split())}", file=text)
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    table.writeheader()
    meaning = _meanings(looks)
    for axes in figure.axes:
        rows = _row_names(axes)
        for row in _drawn(axes, meaning):
            row["row"] = _nearest(rows, row)
            table.writerow({key: _plain(value) for key, value in row.items()})
    return text.getvalue()


def _plain(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float | np.floating) else value


def _meanings(looks: Mapping[str, Look]) -> dict[str, str]:
    """What each colour stands for: a policy by its title, a class of queues by its name."""
    found = {light: name.removeprefix("class-") for name, (light, _) in COLOURS.items()}
    found[COLOURS["ink"][0]] = "95 % interval"  # drawn over whatever it is the interval of
    for name in {look.name for look in looks.values()}:
        titles = [look.title for look in looks.values() if look.name == name]
        found[COLOURS[name][0]] = " or ".join(titles)
    return found


def _drawn(axes: Any, meaning: Mapping[str, str]) -> Iterator[Row]:
    """Whatever is drawn in the units of the axes; lines across a whole panel are not."""

    def series(artist: Any, colour: Any) -> str:
        label = str(artist.get_label())
        known = meaning.get(to_hex(colour).lower(), to_hex(colour))
        return known if label.startswith("_") or not label else label

    def of_data(artist: Any) -> bool:
        return bool(
            artist.get_transform().contains_branch_seperately(axes.transData) == (True,) * 2
        )

    for line in filter(of_data, axes.lines):
        name = series(line, line.get_color())
        for x, y in zip(line.get_xdata(orig=False), line.get_ydata(orig=False), strict=True):
            yield {"kind": "point", "series": name, "x": x, "y": y}
    for patch in filter(of_data, axes.patches):
        name = series(patch, patch.get_facecolor())
        if isinstance(patch, StepPatch):
            values, edges, baseline = patch.get_data()
            floor = np.broadcast_to(0.0 if baseline is None else baseline, len(values))
            for at, (low, high) in enumerate(zip(floor, values, strict=True)):
                ends = {"x": edges[at], "x_end": edges[at + 1]}
                yield {"kind": "bar", "series": name, **ends, "y": low, "y_end": high}
        elif isinstance(patch, Rectangle):
            yield {"kind": "bar", "series": name, **_box(patch.get_bbox())}
    for collection in axes.collections:
        colours = collection.get_facecolor()
        offsets = np.ma.filled(collection.get_offsets(), 0)
        if len(offsets) > 1 or np.any(offsets):  # a cloud of marks
            for at, (x, y) in enumerate(offsets):
                name = series(collection, colours[at % len(colours)])
                yield {"kind": "point", "series": name, "x": x, "y": y}
            continue
        for at, path in enumerate(collection.get_paths()):
            drawn = colours[at % len(colours)] if len(colours) else collection.get_edgecolor()[0]
            yield {"kind": "bar", "series": series(collection, drawn), **_box(path.get_extents())}
    for text in filter(of_data, axes.texts):
        x, y = text.get_position()
        yield {"kind": "text", "x": float(x), "y": float(y), "text": text.get_text()}


def _box(box: Any) -> Row:
    return {"x": box.x0, "x_end": box.x1, "y": box.y0, "y_end": box.y1}


def _row_names(axes: Any) -> dict[float, str]:
    """The names beside the y axis, where it has names instead of numbers."""
    if not isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        return {}
    named = axes.yaxis.get_major_formatter()
    return {float(at): " ".join(named(at, 0).split()) for at in axes.get_yticks()}


def _nearest(rows: Mapping[float, str], row: Row) -> str:
    if not rows:
        return ""
    middle = (row["y"] + row.get("y_end", row["y"])) / 2
    return rows[min(rows, key=lambda at: abs(at - middle))]
