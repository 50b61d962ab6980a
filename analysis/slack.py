"""Network slack per layer as a picture and a table."""

from collections.abc import Sequence

from analysis import words
from analysis.look import Picture, colour, new_figure, picture, styled
from analysis.views import Panel

Layer = tuple[int, int, int, int, int]  # number, bytes, ready, needed by itself, by the barrier


def panels(profile: str, layers: Sequence[Layer]) -> list[Panel]:
    header = (
        "layer", "gradient (kB)", "ready", "needed", "slack", "needed with barrier",
        "slack with barrier",
    )  # fmt: skip
    rows = tuple(
        (
            str(number),
            f"{size / 1000:,.0f}",
            words.duration(ready),
            words.duration(needed),
            _length(needed - ready),
            words.duration(barrier),
            _length(barrier - ready),
        )
        for number, size, ready, needed, barrier in layers
    )
    return [Panel(f"Slack of each layer of {profile}", (spans(profile, layers),), header, rows)]


def _length(ns: int) -> str:
    return words.duration(ns) if ns else "0"


@styled
def spans(profile: str, layers: Sequence[Layer]) -> Picture:
    """A bar for each layer, from ready to needed; the dark part is what a barrier leaves of it."""
    latest = max(needed for _, _, _, needed, _ in layers)
    length, unit = words.time_unit(latest)
    figure, axes = new_figure(4.2)
    for number, _, ready, needed, barrier in layers:
        for end, name in ((needed, "class-low"), (barrier, "class-high")):
            axes.broken_barh(
                [(ready / length, (end - ready) / length)],
                (number - 0.4, 0.8),
                facecolors=colour(name),
                linewidth=0,
            )
    axes.axvline(layers[0][4] / length, color=colour("muted"), linestyle=":", linewidth=1.4)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.set_xlim(0, latest / length)
    axes.set_xlabel(f"time since the iteration began ({unit})")
    axes.set_ylabel("layer")
    axes.set_title("From ready to needed")
    first, last = layers[0], layers[-1]
    alt = (
        f"When each layer's gradient of {profile} is ready and when it is needed. The first layer "
        f"has {words.duration(first[3] - first[2])} of slack, the last one "
        f"{words.duration(last[3] - last[2])} without the barrier and "
        f"{words.duration(last[4] - last[2])} with it."
    )
    caption = (
        "Dark: slack with the barrier, up to the dotted end of the iteration. Light: what layer "
        "order without the barrier adds."
    )
    return picture(figure, "slack", alt, caption)
