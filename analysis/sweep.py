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

from analysis import folder
from analysis.claims import metric_of
from analysis.files import write_whole
from analysis.summary import Summary, digest, summarise
from testbed.errors import BadInput, RunFailed
from testbed.records import SCHEMA_VERSION

# Draws for each interval: a tenth of the width of an interval is enough for a map of many cells.
RESAMPLES = 500
POINTS = "points"


@dataclass(frozen=True)
class Axis:
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
    axes: tuple[Axis, ...]
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
    half = path.with_name(path.name + ".half")
    try:
        pq.write_table(table, half)
        half.rename(path)
    except OSError as problem:
        raise RunFailed(f"{path}: cannot be written ({problem.strerror or problem})") from problem
    return write_whole(out / "report.html", sweep_report.render(grid))


def is_sweep(out: Path) -> bool:
    return (out / "sweep.json").is_file()


def load(out: Path) -> Grid:
    path = out / "sweep.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema_version"] != SCHEMA_VERSION:
            raise BadInput(f"{path}: written by another version of Giveway. Run the sweep again.")
        return Grid(
            folder=out,
            name=raw["name"],
            question=raw["question"],
            engine=raw["engine"],
            command=raw["command"],
            axes=tuple(Axis(a["name"], a["title"], tuple(a["labels"])) for a in raw["axes"]),
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
    """The summary of one point; the one that it has, if that is of the very same records."""
    results = folder.load(point)
    path = point / "summary.json"
    try:
        known: Summary = json.loads(path.read_text(encoding="utf-8"))
        enough = known["interval"]["resamples"] >= RESAMPLES
        if enough and known["digest"] == digest(results):
            return known
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = summarise(results, RESAMPLES)
    write_whole(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def rows_of(summary: Summary) -> Iterator[dict[str, Any]]:
    """Every metric of every policy, with its interval and its change against the first policy."""
    seeds = len(summary["seeds"])
    for label, entry in summary["policies"].items():
        changes = entry.get("change", {})
        for metric in metrics_of(entry):
            value, interval = metric_of(entry, metric)
            low, high = interval or (None, None)
            change = changes.get(metric) or {}
            change_low, change_high = change.get("interval_95") or (None, None)
            thesis_low, thesis_high = change.get("reduction_thesis_interval_95") or (None, None)
            yield {
                "policy": label,
                "metric": metric,
                "unit": unit_of(metric),
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
                "seeds": seeds,
                "fidelity": entry["fidelity"]["verdict"],
            }
        for name, share in band_use(entry).items():
            yield {
                "policy": label,
                "metric": f"links.{name}",
                "unit": "share",
                "value": share,
                "seeds": seeds,
                "fidelity": entry["fidelity"]["verdict"],
            }


def metrics_of(entry: Mapping[str, Any]) -> list[str]:
    """The names of a policy's metrics, without their units."""
    nested = [
        (f"{section}.{name}", found)
        for section in ("flows", "training")
        for name, found in entry[section].items()
    ]
    jobs = entry.get("jobs", {})
    nested += [("jobs", jobs), ("jobs.hosts", jobs.get("hosts", {})), ("links", entry["links"])]
    return [
        f"{parent}.{leaf.removesuffix('_ns').removesuffix('_ms2')}"
        for parent, found in nested
        for leaf, value in found.items()
        if not isinstance(value, dict)
    ]


def band_use(entry: Mapping[str, Any]) -> dict[str, float]:
    """What each queue class carried, as a share of the rate: the mean over all ports."""
    ports = entry["links"]["by_link"].values()
    names = sorted({name for port in ports for name in port["by_class"]})
    return {
        name: sum(port["by_class"].get(name) or 0.0 for port in ports) / len(ports)
        for name in names
    }


def unit_of(metric: str) -> str:
    leaf = metric.rpartition(".")[2]
    if leaf.startswith(("fct_", "iteration_", "jct_")) or leaf == "barrier_wait_mean":
        return "ns"
    if leaf == "barrier_wait_variance":
        return "ms²"
    if "utilisation" in leaf or leaf.endswith("share") or metric.startswith("jobs.hosts."):
        return "share"
    return ""
