"""The slowdown of the slowest flow of a thousand; of fewer flows it is the very slowest."""

from analysis.metrics.slowdown import quantile

METRIC = quantile("slowdown_p999", 0.999)
