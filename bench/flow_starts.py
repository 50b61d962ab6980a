"""How late flows start, and whether all that is offered at half load arrives."""

import numpy as np

from bench.base import Effort, Ratio, played
from testbed.folder import Row
from testbed.records import TABLES
from workloads.schedule import HEADER

LATE_GOAL_MS, BYTES_GOAL = 1.0, 0.99
HOSTS, FLOWS_PER_S = 8, 500
RATE_BPS, LOAD = 1_000_000_000, 0.5
# Every flow has the same size: the load is then half of the links from the first second on.
FLOW_BYTE = int(LOAD * RATE_BPS / 8 * HOSTS / FLOWS_PER_S)
# A flow has had time to finish if the schedule wanted it this long before the end: sixty times
# what it takes alone, and longer than TCP's first retransmission timeout.
TIME_TO_FINISH_NS = 500_000_000

EXPERIMENT = """
name: bench-flow-starts
topology: {{kind: tor, hosts: {hosts}, rate: 1 Gbit/s, delay: about 10 us, queue: 1000 packets}}
duration: {duration_ms} ms
flows:
  - {{name: even, schedule: flows.csv}}
policies: [fifo]
seeds: [0]
dilation: 1
"""


def measure(effort: Effort) -> list[Ratio]:
    duration_ms = 1000 if effort.tiny else 4000
    late_ms, arrived = [], []
    for seed in range(effort.repeats):
        found = played(
            EXPERIMENT.format(hosts=HOSTS, duration_ms=duration_ms),
            seed,
            flows=schedule(seed, duration_ms * 1_000_000),
        ).played
        late_ms.append(late_p99_ms(found.tables["flows"]))
        arrived.append(arrived_share(found.tables["flows"], duration_ms * 1_000_000))
    load = f"{FLOWS_PER_S} flows/s, {HOSTS} hosts, {LOAD:.0%} load"
    return [
        Ratio(
            f"p99 lateness of flow starts over 1 ms, {load}",
            tuple(late_ms),
            LATE_GOAL_MS,
            "at most",
        ),
        Ratio(f"achieved over offered bytes, {load}", tuple(arrived), BYTES_GOAL),
    ]


def schedule(seed: int, duration_ns: int) -> str:
    """Poisson arrivals over all hosts together, every pair equally likely."""
    draw = np.random.default_rng(seed)
    count = FLOWS_PER_S * duration_ns // 1_000_000_000
    starts = np.sort(draw.integers(0, duration_ns, count))  # given their number, Poisson is uniform
    sources = draw.integers(0, HOSTS, count)
    targets = (sources + draw.integers(1, HOSTS, count)) % HOSTS
    rows = [
        f"{start},h{src + 1},h{dst + 1},{FLOW_BYTE}"
        for start, src, dst in zip(starts, sources, targets, strict=True)
    ]
    return "\n".join([",".join(HEADER), *rows]) + "\n"


def late_p99_ms(flows: list[Row]) -> float:
    """Of the flows that started; one that never did counts as late as the run is long."""
    scheduled, started = (
        TABLES["flows"].names.index(name) for name in ("scheduled_ns", "start_ns")
    )
    late_ns = [
        row[started] - row[scheduled] if row[started] is not None else float("inf") for row in flows
    ]
    return float(np.percentile(late_ns, 99, method="higher")) / 1e6


def arrived_share(flows: list[Row], duration_ns: int) -> float:
    """Bytes of the flows that finished over bytes of those that had time to."""
    size, scheduled, ended = (
        TABLES["flows"].names.index(name) for name in ("size_byte", "scheduled_ns", "end_ns")
    )
    due = [row for row in flows if row[scheduled] <= duration_ns - TIME_TO_FINISH_NS]
    return sum(row[size] for row in due if row[ended] is not None) / sum(row[size] for row in due)
