"""One flow from inside, as its sender's TCP saw it: what was under way, what held it, its rate.

Made of the table `tcp`, which is there where an experiment asks for it (`sample: tcp`). The queue
is what its bytes met on their way: the round trip beyond that of an idle network, at line rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import words
from analysis.folder import Plan, Results, SealedRun
from analysis.ideal import host_rates, round_trip_ns
from analysis.look import WIDTH_INCH, Look, colour, picture, styled
from analysis.metrics import Floats

FEWEST_SAMPLES = 4  # below that there is no course of time to see
MOST_POINTS = 600
NEAR = 0.95  # of a window: it is full
WINDOW, CONGESTION, HOST, NOTHING = "window", "congestion", "host", "nothing"
HOLDERS = {
    WINDOW: "the receive window",
    CONGESTION: "the congestion window",
    HOST: "its own host",
    NOTHING: "nothing, all being sent,",
}
# What is drawn: column, name of the colour, width (the last lies on top), and how it is called.
LINES = (
    ("window_byte", "offered", 4.0, "receive window"),
    ("cwnd_byte", "congestion", 2.2, "congestion window"),
    ("in_flight_byte", "ink", 1.0, "in flight"),
)
QUEUE = ("queue_byte", "queued", "queue on its way")


@dataclass(frozen=True)
class SampledConnection:
    """Which of the sampled connections, the same under every policy."""

    tenant: str
    flow: int | None
    rank: int | None
    to_rank: int | None

    def rows(self, samples: pd.DataFrame) -> pd.DataFrame:
        mine = samples["tenant"] == self.tenant
        for name in ("flow", "rank", "to_rank"):
            wanted = getattr(self, name)
            mine &= samples[name].isna() if wanted is None else samples[name] == wanted
        return samples[mine]


@styled
def pictures(results: Results, looks: Mapping[str, Look]) -> dict[str, Any]:
    """A panel a policy of one and the same connection, and a sentence that says which it is."""
    plan = results.plan
    runs = {policy.label: results.of(policy.label)[0] for policy in plan.policies}
    chosen = next(filter(None, map(largest, runs.values())), None)
    panels = []
    said = ""
    for index, (label, run) in enumerate(runs.items()):
        course = None if chosen is None else course_of(run, chosen, plan)
        if chosen is None or course is None:
            continue
        said = said or f"{called(run, chosen)}, seed {run.seed}: the largest that was sampled."
        figure = Figure(figsize=(WIDTH_INCH, 4.0))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        draw(upper, lower, course)
        upper.set_title(looks[label].title)
        held = held_by(course)
        alt = f"{called(run, chosen)} under {looks[label].title}: {described(course)} {held}"
        panels.append(picture(figure, f"inside-{index}", alt, held))
    return {
        "inside": panels,
        "inside_said": said,
        "inside_lines": [(name, title) for _, name, _, title in LINES] + [QUEUE[1:]],
    }


def largest(run: SealedRun) -> SampledConnection | None:
    """The largest flow of those sampled; without flows, the connection that carried most."""
    samples = run.table("tcp")
    flows = samples[samples["flow"].notna()]
    if len(flows):
        known = run.table("flows")
        known = known[known["flow"].isin(flows["flow"])]
        best = known.sort_values(["size_byte", "flow"], ascending=[False, True]).iloc[0]
        return SampledConnection(str(best["mix"]), int(best["flow"]), None, None)
    if samples.empty:
        return None
    best = samples.sort_values("acked_byte").iloc[-1]
    return SampledConnection(str(best["tenant"]), None, int(best["rank"]), int(best["to_rank"]))


def course_of(run: SealedRun, chosen: SampledConnection, plan: Plan) -> pd.DataFrame | None:
    """Its samples, with the queue on its way and its rate; None if they are too few."""
    rows = chosen.rows(run.table("tcp"))
    if len(rows) < FEWEST_SAMPLES:
        return None
    rows = rows.iloc[:: -(-len(rows) // MOST_POINTS)].copy()
    sending, receiving = host_rates(plan.rates_bps)
    ends = rows[["src", "dst"]].iloc[:1]
    src, dst = ends.iloc[0]
    line_bps = min(sending[src], receiving[dst])
    waited_ns = rows["srtt_ns"] - float(round_trip_ns(ends, plan.delays_ns)[0])
    rows["queue_byte"] = np.clip(waited_ns, 0, None) * line_bps / 8e9
    arrived_byte = (rows["acked_byte"] + rows["sacked_byte"]).to_numpy(float)
    rows["rate_bps"] = rates(rows["time_ns"].to_numpy(float), arrived_byte)
    return rows


def rates(time_ns: Floats, arrived_byte: Floats) -> Floats:
    """What has arrived since the sample before; of the first there is none."""
    more_byte = np.clip(np.diff(arrived_byte), 0, None)  # sacked is whole segments, acked bytes
    return np.concatenate([[np.nan], more_byte * 8e9 / np.diff(time_ns)])


def holders(course: pd.DataFrame) -> dict[str, float]:
    """In which share of the samples what held it, the most frequent first."""
    window, congestion, flight = (
        course[name].to_numpy(float) for name in ("window_byte", "cwnd_byte", "in_flight_byte")
    )
    full = flight >= NEAR * np.minimum(window, congestion)
    waiting = course["unsent_byte"].to_numpy() > 0
    found = np.where(
        full, np.where(window <= congestion, WINDOW, CONGESTION), np.where(waiting, HOST, NOTHING)
    )
    return {str(name): float(n) / len(found) for name, n in pd.Series(found).value_counts().items()}


def held_by(course: pd.DataFrame) -> str:
    parts = [
        f"{HOLDERS[name]} in {words.percent(share, signed=False)} of the samples"
        for name, share in holders(course).items()
    ]
    lost = int(course["retransmits"].iloc[-1])
    return f"Held by {words.and_list(parts)}; {lost or 'no'} segments were sent again."


def called(run: SealedRun, chosen: SampledConnection) -> str:
    if chosen.flow is None:
        return f"{chosen.tenant}, rank {chosen.rank} to rank {chosen.to_rank}"
    flows = run.table("flows")
    flow = flows[flows["flow"] == chosen.flow].iloc[0]
    size, unit = byte_unit(float(flow["size_byte"]))
    ends = f"{flow['src']} to {flow['dst']}"
    return f"Flow {chosen.flow} of {chosen.tenant}, {flow['size_byte'] / size:.3g} {unit}, {ends}"


def described(course: pd.DataFrame) -> str:
    size, unit = byte_unit(_top(course))
    named = [(title, column) for column, _, _, title in LINES] + [(QUEUE[2], QUEUE[0])]
    medians = [f"{title} {course[column].median() / size:.3g} {unit}" for title, column in named]
    return f"medians: {', '.join(medians)}."


def byte_unit(byte: float) -> tuple[float, str]:
    return (1e6, "MB") if byte >= 1e6 else (1e3, "kB")


def draw(upper: Any, lower: Any, course: pd.DataFrame) -> None:
    """Windows, bytes in flight and queue above; the rate below."""
    time_ns = course["time_ns"].to_numpy(float)
    length, time_unit = words.time_unit(float(time_ns[-1]))
    size, unit = byte_unit(_top(course))
    times = time_ns / length
    queue, name, title = QUEUE
    upper.fill_between(times, course[queue] / size, color=colour(name), linewidth=0, label=title)
    for column, name, width, title in LINES:
        upper.plot(
            times, course[column] / size, color=colour(name), linewidth=width,
            label=title,
        )  # fmt: skip
    # A window that is far above everything is not what holds: it may leave the picture.
    upper.set_ylim(0, 1.35 * _top(course) / size)
    upper.set_ylabel(unit)
    rate, rate_unit = words.bit_rate_unit(float(course["rate_bps"].max()))
    lower.plot(times, course["rate_bps"] / rate, color=colour("ink"), linewidth=1.2)
    lower.set_ylim(bottom=0)
    lower.set_ylabel(rate_unit)
    lower.set_xlabel(f"time of the run ({time_unit})")


def _top(course: pd.DataFrame) -> float:
    """What the picture has to have room for: bytes in flight, queue, and the window that holds."""
    smaller = course[["window_byte", "cwnd_byte"]].min(axis=1)
    return float(max(course["in_flight_byte"].max(), course["queue_byte"].max(), smaller.max(), 1))
