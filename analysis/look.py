"""The one place that says what everything looks like: colours, markers, and pictures as SVG.

Plots are drawn in the light colours below. On its way into the page each colour becomes a CSS
variable, so that the same picture follows the light or dark scheme of whoever reads it. Policy
colours are chosen to be told apart by colour-blind readers, and differ in dash and marker too.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from analysis.folder import Plan

STYLE = Path(__file__).with_name("giveway.mplstyle")
WIDTH_INCH = 4.2

styled = matplotlib.rc_context(fname=STYLE)  # a decorator for every function that draws

# name: (light, dark)
COLOURS = {
    "ink": ("#20262d", "#e8eaed"),
    "muted": ("#5f6873", "#a7b0ba"),
    "grid": ("#d9dde2", "#343b44"),
    "shade": ("#eceef1", "#22282f"),
    "policy-0": ("#6f7884", "#a3abb5"),
    "policy-1": ("#0072b2", "#56b4e9"),
    "policy-2": ("#d55e00", "#ff8a4c"),
    "policy-3": ("#009e73", "#2ec4a0"),
    "policy-4": ("#aa4499", "#dd8fd0"),
    "policy-5": ("#b58900", "#f0c040"),
    "policy-6": ("#7a4b2a", "#c79a78"),
    "policy-7": ("#3d9fc7", "#a6dcf2"),
    "class-all": ("#8a94a0", "#7d8894"),
    "class-high": ("#322d73", "#d9d6ff"),
    "class-middle": ("#7c76c0", "#938ce0"),
    "class-low": ("#c2bfe6", "#4d4796"),
    "forward": ("#12706a", "#4fc4bb"),
    "backward": ("#5fb3ab", "#23807a"),
    "transfer": ("#dd8a1a", "#f2ab4b"),
    "part": ("#f0b868", "#b9772a"),
    "flight": ("#b9a7d6", "#6f5a96"),
    "wait": ("#e3ddd2", "#4a443b"),
    "congestion": ("#1b6fae", "#5ab0ec"),
    "offered": ("#d4690a", "#ff9550"),
    "queued": ("#b9d8c3", "#3a5f47"),
    "gain": ("#2a9d6f", "#2f9e74"),
    "middling": ("#e0b020", "#b8901c"),
    "pay": ("#d1492e", "#d05c40"),
    "sooner": ("#1f78b8", "#3d8fd1"),  # blue and orange: everybody can tell them apart
    "later": ("#e07b16", "#d9812b"),
}
DASHES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (8, 2, 1, 2)),
)  # fmt: skip
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")
MARKS = ("●", "■", "◆", "▲", "▼", "✚", "✖", "◀")  # the same markers for legends made of text
FEW = 6  # of arms: more that are crossed are told apart by what they are made of


@dataclass(frozen=True)
class Look:
    """How one policy appears in every plot, table and legend."""

    label: str
    title: str
    name: str  # of its colour
    dash: Any
    marker: str
    mark: str

    @property
    def colour(self) -> str:
        return COLOURS[self.name][0]


@dataclass(frozen=True)
class Picture:
    svg: str
    caption: str
    slug: str = ""
    figure: Figure | None = field(default=None, repr=False, compare=False)  # for files of its own


def looks(plan: Plan) -> dict[str, Look]:
    """Every policy's look by label. The first, which the others are held against, is grey."""
    return looks_of({policy.label: policy.title for policy in plan.policies})


def looks_of(titles: Mapping[str, str]) -> dict[str, Look]:
    """A look for each label of `titles`, in their order."""
    return {
        label: Look(
            label,
            title,
            f"policy-{hue % len(MARKERS)}",
            DASHES[shape % len(DASHES)],
            MARKERS[shape % len(MARKERS)],
            MARKS[shape % len(MARKS)],
        )
        for (label, title), (hue, shape) in zip(titles.items(), _places(list(titles)), strict=True)
    }


def _places(labels: Sequence[str]) -> list[tuple[int, int]]:
    """The numbers of each one's colour and marker: both its own, as long as there are enough.

    After that no two have the same colour and the same marker.

    Where policies are crossed with transfer policies, there are soon many: then each policy has a
    colour, and each transfer policy a marker.
    """
    if len(labels) <= FEW or not all("+" in label for label in labels):
        return [(at, at + at // len(MARKERS)) for at in range(len(labels))]
    crossed = [label.partition("+")[::2] for label in labels]
    policies, transfers = (list(dict.fromkeys(names)) for names in zip(*crossed, strict=True))
    return [(policies.index(one), transfers.index(other)) for one, other in crossed]


def colour(name: str) -> str:
    return COLOURS[name][0]


def class_colour_name(band: str) -> str:
    """The name of a queue class's colour; classes beyond the usual borrow the policies'."""
    if f"class-{band}" in COLOURS:
        return f"class-{band}"
    return f"policy-{1 + sum(band.encode()) % 5}"


def class_colour(band: str) -> str:
    return colour(class_colour_name(band))


def new_figure(height_inch: float = 2.9) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH_INCH, height_inch))
    return figure, figure.add_subplot()


def picture(figure: Figure, slug: str, alt: str, caption: str = "") -> Picture:
    """The figure as SVG to be set into a page: scalable, named for screen readers, recoloured."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Several pictures share one page, so each one's identifiers get its own prefix.
    svg = re.sub(r'\bid="', f'id="{slug}-', svg)
    svg = re.sub(r'href="#', f'href="#{slug}-', svg)
    svg = re.sub(r"url\(#", f"url(#{slug}-", svg)
    for name, (light, _) in COLOURS.items():
        svg = re.sub(re.escape(light), f"var(--{name}, {light})", svg, flags=re.IGNORECASE)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    described = escape(alt, quote=True)
    svg = svg.replace("<svg", f'<svg class="picture" role="img" aria-label="{described}"', 1)
    return Picture(svg.strip(), caption, slug, figure)
