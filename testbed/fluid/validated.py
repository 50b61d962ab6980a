"""Where the simulation was held against a real kernel and was near it, and what lies outside.

`RANGES` spans the cells of bench/agreement but for those in which it was far off (`FAR_OFF` there);
a test holds it to them. Outside, a run says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from basics import units
from testbed.fluid.tcp import PAYLOAD
from testbed.fluid.transport import has_timers
from testbed.spec import Experiment
from workloads.schedule import schedule_of

WINDOWS_BYTE = 64_000, 1_000_000
AT_ONCE_NS = 1_000_000  # replayed flows that begin so close to each other come together


@dataclass(frozen=True)
class Range:
    what: str
    least: int
    most: int
    told: Callable[[int], str]
    found: Callable[[Experiment], int]

    def outside(self, experiment: Experiment) -> str | None:
        """A sentence, if this experiment is."""
        value = self.found(experiment)
        if self.least <= value <= self.most:
            return None
        return (
            f"{self.what} {self.told(value)} is outside of what the simulation was compared with "
            f"a kernel on, {self.told(self.least)} to {self.told(self.most)} (docs/agreement.md): "
            "do not rely on it there, or use `--engine virtual`"
        )


def senders_at_once(experiment: Experiment) -> int:
    """The most connections that send into one host at the same time, by the experiment's own plan.

    Workers into the servers of a host, a mix's `incast`, and replayed flows that begin together.
    What meets by chance, as flows of `all-to-all` do, does not count.
    """
    workers: Counter[str] = Counter()
    for job in experiment.training:
        if job.has_servers:
            for host in set(job.server_names):
                workers[host] += len(set(job.host_names) - {host})
    asked = [mix.senders or 0 for mix in experiment.flows]
    return max([0, *workers.values(), *asked, *_replayed_together(experiment)])


def _replayed_together(experiment: Experiment) -> Iterator[int]:
    replayed = [at for at, mix in enumerate(experiment.flows) if mix.schedule is not None]
    if not replayed:
        return
    flows = schedule_of(experiment, experiment.seeds[0])
    for host in np.unique(flows.dst[np.isin(flows.mix, replayed)]):
        starts = np.sort(flows.start_ns[np.isin(flows.mix, replayed) & (flows.dst == host)])
        first = np.searchsorted(starts, starts - AT_ONCE_NS)
        yield int((np.arange(1, len(starts) + 1) - first).max())


def fixed_window(experiment: Experiment) -> int:
    """What `tcp.window` fixes. The kernel's own tuning is what it was compared on most."""
    return experiment.transport.window_byte or WINDOWS_BYTE[0]


RANGES = (
    Range("queue:", 300, 1000, units.format_packets, lambda one: one.topology.queue_packets),
    Range(
        "rate:", 200_000_000, 10_000_000_000, units.format_rate, lambda one: one.topology.rate_bps
    ),
    Range("delay:", 10_000, 200_000, units.format_time, lambda one: one.topology.delay.ns),
    Range("window:", *WINDOWS_BYTE, units.format_size, fixed_window),
    Range("senders into one host at once:", 0, 16, str, senders_at_once),
)


def cautions(experiment: Experiment) -> list[str]:
    """What of an experiment the simulation was never compared on."""
    if not experiment.sends:
        return []
    found = [one.outside(experiment) for one in RANGES]
    found += [no_timers(experiment), weighs(experiment)]
    return [sentence for sentence in found if sentence is not None]


def weighs(experiment: Experiment) -> str | None:
    if experiment.transport.control != "mltcp":
        return None
    return (
        "tcp: mltcp was compared with a kernel only where two equal jobs meet (docs/cluster.md): "
        "elsewhere do not rely on it, or use `--engine virtual`"
    )


def no_timers(experiment: Experiment) -> str | None:
    """A shortest timeout, where none is simulated."""
    asked, queue_byte = experiment.transport, experiment.topology.queue_packets * PAYLOAD
    marks = asked.control == "dctcp"
    if asked.rto_min_ns is None or (has_timers(asked, queue_byte) and not marks):
        return None
    return (
        "tcp.rto_min: timeouts are simulated only where one connection's window fills a queue "
        "(docs/fluid.md): here it says no more than how soon an idle window shrinks"
    )
