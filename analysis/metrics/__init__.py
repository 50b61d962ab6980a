"""Every number of a report: its name and unit, which way is better, how it is computed and shown.

A metric is one file in this folder that ends with `METRIC = Metric(...)`, or `METRICS = (...)` for
a family. Claims, tables, sweeps, reproductions and plots all read it here, and docs/metrics.md is
written from it (`python -m analysis.metrics_page`).
"""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from analysis.metrics.base import (
    ALL,
    BANDS,
    CLUSTER,
    FLOWS,
    HOSTS,
    JOBS,
    LINKS,
    MIXES,
    SHARING,
    SIZE_CLASSES,
    SIZES,
    SUBJECTS,
    TIERS,
    TRAINING,
    Bars,
    Better,
    Metric,
    Over,
    Subject,
    Values,
    Whole,
)
from analysis.metrics.statistic import MEAN, Floats, Statistic, mean, quantile
from analysis.metrics.unit import RATIO, SHARE, TIME, Unit, axis_label
from basics.errors import BadInput
from basics.hints import nearest

__all__ = [
    "ALL", "BANDS", "CLUSTER", "FLOWS", "HOSTS", "JOBS", "LINKS", "MEAN", "MIXES", "RATIO", "SHARE",
    "SHARING", "SIZES",
    "SIZE_CLASSES", "SUBJECTS", "TIERS", "TIME", "TRAINING", "Bars", "Better", "Floats", "Metric",
    "Over", "Statistic", "Subject", "Unit", "Values", "Whole", "available", "axis_label",
    "described", "headline", "known", "mean", "named", "of", "paths", "quantile",
]  # fmt: skip


@cache
def available() -> Mapping[tuple[Subject, str], Metric]:
    """Every metric by subject and name: in the order of the subjects, headlines first."""
    found: dict[tuple[Subject, str], Metric] = {}
    for metric in sorted(_declared(), key=lambda one: (SUBJECTS.index(one.of), not one.headline)):
        if (metric.of, metric.name) in found:
            raise ValueError(f"{metric.pattern} is declared twice in {__name__}")
        found[metric.of, metric.name] = metric
    return found


def _declared() -> Iterator[Metric]:
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(loaded, "METRIC"):
            yield loaded.METRIC
        yield from getattr(loaded, "METRICS", ())


def of(subject: Subject) -> list[Metric]:
    return [metric for metric in available().values() if metric.of is subject]


def headline(subject: Subject) -> Metric:
    """The metric that a subject is judged by where there is room for one."""
    return of(subject)[0]


def named(path: str) -> tuple[Metric, str] | None:
    """flows.small.fct_mean -> (the metric fct_mean of flows, "small"); its key will do as well."""
    for subject in SUBJECTS:
        whose, name = subject.split(path) or ("", None)
        for metric in of(subject):
            if name in (metric.name, metric.key):
                return metric, whose
    return None


def known(path: str) -> Metric:
    """The metric of this name; BadInput, in one line, if there is none."""
    found = named(path)
    if found is None:
        patterns = [metric.pattern for metric in available().values()]
        raise BadInput(f"{path}: an unknown metric{nearest(path, patterns, 6)}")
    return found[0]


def paths(whose: Mapping[Subject, Iterable[str]]) -> list[str]:
    """The names of all metrics of some subjects, for each of those that a subject is about."""
    return [
        metric.path(one)
        for subject, several in whose.items()
        for one in several
        for metric in of(subject)
    ]


def described() -> dict[str, dict[str, str]]:
    """Unit and better direction of every metric, for machines: a part of summary.json."""
    return {
        metric.pattern: {"unit": metric.unit.symbol, "better": metric.better}
        for metric in available().values()
    }
