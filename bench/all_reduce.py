"""Bus bandwidth of the native all-reduce over the configured rate, in experiment time."""

import pandas as pd

from bench.base import Effort, Ratio, played

GOAL = 0.85
SMALLEST_SHARE = 0.5  # of the model: what an all-reduce must carry to be counted
FIRST_ITERATION = 1  # in iteration 0 the windows of TCP are still growing

# Next to no compute and room for the whole model in one transfer: what is left is the all-reduce.
EXPERIMENT = """
name: bench-all-reduce
topology: {{kind: tor, hosts: {hosts}, rate: {rate}, delay: about 10 us, queue: 1000 packets}}
duration: {duration}
training:
  - {{name: job, profile: resnet50-thesis, model: {model}, iteration: 100 us, fusion: {model},
     barrier: true}}
policies: [fifo]
seeds: [0]
dilation: auto
"""


def measure(effort: Effort) -> list[Ratio]:
    hosts, rate_gbit, model_mb = (3, 1, 10) if effort.tiny else (8, 10, 100)
    text = EXPERIMENT.format(
        hosts=hosts, rate=f"{rate_gbit} Gbit/s", model=f"{model_mb} MB", duration="800 ms"
    )
    outcomes = [played(text, seed=repeat) for repeat in range(effort.repeats)]
    values = [
        bandwidth_bps / (rate_gbit * 1e9)
        for outcome in outcomes
        for bandwidth_bps in bus_bandwidths_bps(outcome.tables["transfers"], hosts, model_mb * 1e6)
    ]
    return [
        Ratio(
            f"bus bandwidth over rate, {hosts} hosts at {rate_gbit} Gbit/s",
            tuple(values),
            GOAL,
            note=f"{len(values)} all-reduces at dilation {outcomes[0].dilation:g}",
        )
    ]


def bus_bandwidths_bps(transfers: pd.DataFrame, workers: int, model_byte: float) -> list[float]:
    """2(N-1)/N of the bytes over the time from the first worker's start to the last one's end."""
    by_transfer = transfers.groupby(["iteration", "transfer"]).agg(
        workers=("worker", "size"),
        bytes=("bytes", "first"),
        start_ns=("start_ns", "min"),
        end_ns=("end_ns", "max"),
    )
    counted = by_transfer[
        (by_transfer.index.get_level_values("iteration") >= FIRST_ITERATION)
        & (by_transfer.workers == workers)
        & (by_transfer.bytes >= SMALLEST_SHARE * model_byte)
    ]
    moved_bit = 8 * counted.bytes * 2 * (workers - 1) / workers
    return [float(value) for value in moved_bit / (counted.end_ns - counted.start_ns) * 1e9]
