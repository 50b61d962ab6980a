"""docs/metrics.md: every metric with its unit and meaning, written from their own files.

`python -m analysis.metrics_page` writes it again.
"""

from collections.abc import Iterator
from pathlib import Path

from analysis import metrics
from analysis.metrics import SUBJECTS, Metric, Over
from basics.files import write_whole

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD = """\
# Metrics
Written by `python -m analysis.metrics_page` from the files in `analysis/metrics/`: do not edit it
by hand. A metric has the same name in claims, in the `metric` column of a sweep's
`summary.parquet` and in the files of reproductions; `summary.json` adds its unit (`fct_mean_ns`).
Flows, iterations, barriers and links are those of the measured window, of all seeds together. A
metric with an interval is drawn again 2,000 times, seeds and rows within them, and so is its
change against another policy. One metric is one file: CONTRIBUTING.md says how to add one.

| unit | in tables | a claim writes |
| --- | --- | --- |"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    units = {metric.unit.name: metric.unit for metric in metrics.available().values()}
    for unit in units.values():
        yield f"| {unit.name} | {unit.symbol} | at most {unit.example} |"
    for subject in SUBJECTS:
        yield ""
        yield f"## {subject.title}"
        if not subject.claimed:
            yield "Not for claims: which there are is known only when a run is measured."
        yield ""
        yield "| name | unit | better | interval | meaning |"
        yield "| --- | --- | --- | --- | --- |"
        for metric in metrics.of(subject):
            yield _row(metric)
        yield ""
        yield f"Computed from {subject.rows}."


def _row(metric: Metric) -> str:
    interval = "yes" if isinstance(metric.how, Over) else ""
    cells = (f"`{metric.pattern}`", metric.unit.name, metric.better, interval, metric.meaning)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write_whole(PAGE, page())
