"""How late flows start, and whether all that is offered at half load arrives."""

import numpy as np
import pandas as pd

from bench.base import Effort, Ratio, auto_dilation, played
from workloads.schedule import HEADER

LATE_GOAL, BYTES_GOAL = 1.0, 0.99  # the first in ms of real time
HOSTS, FLOWS_PER_S, LOAD = 8, 500, 0.5
RATES_MBIT = (100, 1000)
# A task cannot start a flow while the hypervisor runs somebody else: such runs say nothing of us.
MOST_STEAL, TRIES_A_REPEAT = 0.01, 5
# A flow has had time to finish if the schedule wanted it this long before the end: sixty times
# what it takes alone, and twice TCP's first retransmission timeout.
TIME_TO_FINISH_NS = 500_000_000

EXPERIMENT = """
name: bench-flow-starts
topology: {{kind: tor, hosts: {hosts}, rate: {rate} Mbit/s, delay: about 10 us,
  queue: 1000 packets}}
duration: {duration} ms
flows:
  - {{name: even, schedule: flows.csv}}
policies: [fifo]
seeds: [0]
dilation: {dilation}
"""


def measure(effort: Effort) -> list[Ratio]:
    rates = RATES_MBIT[:1] if effort.tiny else RATES_MBIT
    return [ratio for rate_mbit in rates for ratio in at_rate(rate_mbit, effort)]


def at_rate(rate_mbit: int, effort: Effort) -> list[Ratio]:
    """Both promises on links of one rate; the flows are as large as half load wants them."""
    duration_ms = 1000 if effort.tiny else 4000
    settings = {"hosts": HOSTS, "rate": rate_mbit, "duration": duration_ms}
    note = ""
    late_ms, arrived = [], []
    files = {"flows.csv": schedule(0, rate_mbit, duration_ms)}
    needed = auto_dilation(EXPERIMENT.format(**settings, dilation="auto"), files)
    if needed > 1:
        note = f"too much for this machine in real time: `auto` would slow it down {needed:g} times"
    else:
        disturbed = 0
        for seed in range(TRIES_A_REPEAT * effort.repeats):
            files = {"flows.csv": schedule(seed, rate_mbit, duration_ms)}
            outcome = played(EXPERIMENT.format(**settings, dilation=1), seed, files)
            flows = outcome.tables["flows"]
            arrived.append(arrived_share(flows, duration_ms * 1_000_000))
            if outcome.steal_share > MOST_STEAL and not effort.tiny:
                disturbed += 1
                continue
            late_ms.append(late_p99_ms(flows))
            if len(late_ms) == effort.repeats:
                break
        if disturbed:
            note = (
                f"{disturbed} runs left out of the lateness: other machines on this hardware took "
                f"more than {MOST_STEAL:.0%} of the processors"
            )
    where = f"{FLOWS_PER_S} flows/s over {HOSTS} hosts at {rate_mbit} Mbit/s, {LOAD:.0%} load"
    late = f"p99 lateness of starts over 1 ms, {where}"
    return [
        Ratio(late, tuple(late_ms), LATE_GOAL, "at most", note),
        Ratio(f"achieved over offered bytes, {where}", tuple(arrived), BYTES_GOAL, note=note),
    ]


def schedule(seed: int, rate_mbit: int, duration_ms: int) -> str:
    """Poisson arrivals (given their number: uniform), every pair equally likely, one size."""
    draw = np.random.default_rng(seed)
    count = FLOWS_PER_S * duration_ms // 1000
    size_byte = round(LOAD * rate_mbit * 1e6 / 8 * HOSTS / FLOWS_PER_S)
    starts = np.sort(draw.integers(0, duration_ms * 1_000_000, count))
    sources = draw.integers(0, HOSTS, count)
    targets = (sources + draw.integers(1, HOSTS, count)) % HOSTS
    rows = [
        f"{start},h{source + 1},h{target + 1},{size_byte}"
        for start, source, target in zip(starts, sources, targets, strict=True)
    ]
    return "\n".join([",".join(HEADER), *rows]) + "\n"


def late_p99_ms(flows: pd.DataFrame) -> float:
    """A flow that never started is infinitely late. Real time: these runs are not dilated."""
    late_ns = (flows.start_ns - flows.scheduled_ns).fillna(float("inf"))
    return float(late_ns.quantile(0.99, interpolation="higher")) / 1e6


def arrived_share(flows: pd.DataFrame, duration_ns: int) -> float:
    """Of the bytes of all flows that had time to finish: those of the flows that did."""
    due = flows[flows.scheduled_ns <= duration_ns - TIME_TO_FINISH_NS]
    return float(due[due.end_ns.notna()].size_byte.sum() / due.size_byte.sum())
