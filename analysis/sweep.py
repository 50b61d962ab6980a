"""A folder of sweep points as one tidy table: a row for each point, policy and metric.

Every point is a folder of runs like any other, with a summary.json of its own; this module only
puts them side by side. Times are nanoseconds, shares and changes are fractions, and what could
not be measured is null.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis import folder, link_use, metrics
from analysis.claims import value_of
from analysis.metrics import BANDS, SUBJECTS, Metric
from analysis.summary import SUMMARY_VERSION, Summary, digest, summarise
from basics.errors import BadInput
from basics.files import whole, write_whole
from basics.record_version import SCHEMA_VERSION

# Draws for each interval: a tenth of the width of an interval is enough for a map of many cells.
RESAMPLES = 500
POINTS = "points"


@dataclass(frozen=True)
class GridAxis:
    name: str
    title: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """What was swept, and the summary of every point."""

    folder: Path
    name: str
    question: str
    engine: str
    command: str
    axes: tuple[GridAxis, ...]
    points: Mapping[tuple[str, ...], Path]  # by its labels, one an axis
    policies: tuple[str, ...]
    seeds: tuple[int, ...]

    @cached_property
    def summaries(self) -> dict[tuple[str, ...], Summary]:
        return {labels: measure(path) for labels, path in self.points.items()}

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows of summary.parquet."""
        names = [axis.name for axis in self.axes]
        rows = [
            {"point": self.points[labels].name, **dict(zip(names, labels, strict=True)), **row}
            for labels, summary in self.summaries.items()
            for row in rows_of(summary)
        ]
        return pd.DataFrame(rows)

    @property
    def first(self) -> Summary:
        return next(iter(self.summaries.values()))

    def title_of(self, label: str) -> str:
        """A policy's title, unless another policy of this sweep has the same one."""
        titles = [entry["title"] for entry in self.first["policies"].values()]
        title: str = self.first["policies"][label]["title"]
        return title if titles.count(title) == 1 else label


def write(out: Path) -> Path:
    """Write summary.parquet and report.html into the folder of a finished sweep."""
    from analysis import sweep_report  # it imports this module

    grid = load(out)
    table = pa.Table.from_pandas(grid.table, preserve_index=False)
    path = out / "summary.parquet"
    with whole(path) as beside:
        pq.write_table(table, beside)
    return write_whole(out / "report.html", sweep_report.render(grid))


def is_sweep(out: Path) -> bool:
    return (out / "sweep.json").is_file()


def load(out: Path) -> Grid:
    path = out / "sweep.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema_version"] != SCHEMA_VERSION:
            raise BadInput(f"{path}: written by another version of Giveway. Run the sweep again.")
        if raw.get("shard"):
            raise BadInput(
                f"{out}: is shard {raw['shard']} of a sweep: `giveway sweep --join FOLDER…` first"
            )
        return Grid(
            folder=out,
            name=raw["name"],
            question=raw["question"],
            engine=raw["engine"],
            command=raw["command"],
            axes=tuple(GridAxis(a["name"], a["title"], tuple(a["labels"])) for a in raw["axes"]),
            points={
                tuple(point["at"].values()): out / POINTS / point["folder"]
                for point in raw["points"]
            },
            policies=tuple(raw["policies"]),
            seeds=tuple(raw["seeds"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadInput(f"{path}: cannot be read ({problem}). Run the sweep again.") from problem


def measure(point: Path) -> Summary:
    """The summary of one point; the one that it has, if that is of the very same records.

    One that was written when there were other metrics is made again.
    """
    results = folder.load(point)
    path = point / "summary.json"
    try:
        known: Summary = json.loads(path.read_text(encoding="utf-8"))
        enough = known["interval"]["resamples"] >= RESAMPLES
        same = known["summary_version"] == SUMMARY_VERSION
        same = same and known["metrics"] == metrics.described()
        if enough and same and known["digest"] == digest(results):
            return known
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = summarise(results, RESAMPLES)
    write_whole(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def rows_of(summary: Summary) -> Iterator[dict[str, Any]]:
    """Every metric of every policy, with its interval and its change against the first policy."""
    for label, entry in summary["policies"].items():
        changes = entry.get("change", {})
        shared = {"seeds": len(summary["seeds"]), "fidelity": entry["fidelity"]["verdict"]}
        for metric, whose in metrics_of(entry):
            value, interval = value_of(entry, metric, whose)
            low, high = interval or (None, None)
            change = changes.get(metric.path(whose)) or {}
            change_low, change_high = change.get("interval_95") or (None, None)
            thesis_low, thesis_high = change.get("reduction_thesis_interval_95") or (None, None)
            yield {
                "policy": label,
                "metric": metric.path(whose),
                "unit": metric.unit.symbol,
                "value": value,
                "low": low,
                "high": high,
                "against": changes.get("against"),
                "change": change.get("change"),
                "change_low": change_low,
                "change_high": change_high,
                "reduction_thesis": change.get("reduction_thesis"),
                "reduction_thesis_low": thesis_low,
                "reduction_thesis_high": thesis_high,
                **shared,
            }
        carried = metrics.headline(BANDS)
        for band, rows in link_use.by_band(entry["links"]["by_link"]).items():
            yield {
                "policy": label,
                "metric": carried.path(band),
                "unit": carried.unit.symbol,
                "value": carried.how.value(rows),
                **shared,
            }


def metrics_of(entry: Mapping[str, Any]) -> list[tuple[Metric, str]]:
    """A policy's metrics, and whose they are; jobs that wait for nobody have no such metrics."""
    return [
        (metric, whose)
        for subject in SUBJECTS
        if entry.get(subject.section.partition(".")[0])
        for whose in subject.places(entry)
        for metric in metrics.of(subject)
        if not subject.nameless
    ]
