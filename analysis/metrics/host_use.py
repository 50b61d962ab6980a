"""What hosts do while jobs run. Compute is played: the processors say nothing about it."""

from analysis.metrics.base import HOSTS, Metric, Over
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE


def use(name: str, title: str, meaning: str) -> Metric:
    return Metric(
        name, HOSTS, SHARE, "neither", title, f"{meaning}; mean over hosts", Over(name, MEAN)
    )


METRICS = (
    use("computing", "workers computing", "share of its workers' time that they compute"),
    use("sent", "sent", "what a host sends, as a share of its links' rates"),
    use("received", "received", "what a host receives, as a share of its links' rates"),
)
