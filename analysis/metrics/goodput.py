"""What a tenant's receivers get in a second: for flows that never end, the one number there is."""

from analysis.metrics.base import MIXES, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import BIT_RATE

METRIC = Metric(
    "goodput", MIXES, BIT_RATE, "higher", "goodput",
    "bytes of the mix's flows that their receivers got in the measured window, a second; a flow's "
    "bytes count evenly over its life, those of an unfinished one until the run's end; mean over "
    "seeds",
    Over("goodput_bps", MEAN), headline=True, row=True,
)  # fmt: skip
