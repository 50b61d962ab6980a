"""The slowdown of the slowest flow of a hundred: who is hurt most for its size."""

from analysis.metrics.base import Values
from analysis.metrics.slowdown import quantile

METRIC = quantile("slowdown_p99", 0.99, Values(log=True))
