"""The slowest flow of a thousand; of fewer flows than that it is the very slowest."""

from analysis.metrics.fct import quantile

METRIC = quantile("fct_p999", 0.999)
