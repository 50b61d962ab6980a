"""Bus bandwidth of each training stack's all-reduce at exact rates, over what headers leave."""

import pandas as pd

from basics.errors import CannotRun
from bench.all_reduce import SMALLEST_SHARE
from bench.base import Effort, Ratio, played
from testbed.live.iperf import HEADER_LIMIT
from testbed.virtual import engine

GOALS = {"native": 0.95, "torch": 0.95, "horovod": 0.8}
FIRST_ITERATION = 1  # in iteration 0 the windows of TCP are still growing

# Next to no compute, and room for the whole model in one bucket or fusion buffer: what is left is
# the all-reduce. Offloads are on, as on real hosts, and a queue holds all that TCP keeps
# outstanding: losses at the sender's own queue are TCP's story, and README.md has their price.
EXPERIMENT = """
name: bench-stack-all-reduce
topology: {{kind: tor, hosts: {hosts}, rate: {rate_gbit} Gbit/s, delay: 10 us, queue: 4000 packets}}
offload: on
duration: {duration}
training:
  - {{name: job, profile: resnet50-thesis, model: {model_mb} MB, iteration: 100 us,
     fusion: {model_mb} MB, barrier: true, backend: {backend}}}
policies: [fifo]
seeds: [0]
"""


def measure(effort: Effort) -> list[Ratio]:
    hosts, rate_gbit, model_mb, duration = (
        (3, 1, 2, "100 ms") if effort.tiny else (8, 10, 100, "600 ms")
    )
    found = []
    for backend, goal in GOALS.items():
        name = f"{backend}: bus bandwidth over {rate_gbit} Gbit/s less headers, {hosts} hosts"
        text = EXPERIMENT.format(
            hosts=hosts, rate_gbit=rate_gbit, model_mb=model_mb, duration=duration, backend=backend
        )
        try:
            outcome = played(text, seed=0, engine=engine)
        except CannotRun as why:
            found.append(Ratio(name, (), goal, note=str(why)))
            continue
        limit_bps = rate_gbit * 1e9 * HEADER_LIMIT
        reached = bandwidths_bps(outcome.tables["transfers"], hosts, model_mb * 1e6)
        values = tuple(bandwidth_bps / limit_bps for bandwidth_bps in reached)
        note = f"{len(values)} all-reduces of {model_mb} MB; the same on every machine"
        found.append(Ratio(name, values, goal, note=note))
    return found


def bandwidths_bps(transfers: pd.DataFrame, workers: int, model_byte: float) -> list[float]:
    """2(N-1)/N of an iteration's large transfer over the time that it took, by iteration.

    From the first worker's start to the last one's end. Workers of Horovod number their transfers
    apart, so the transfer of an iteration is told by its size.
    """
    large = transfers[
        (transfers.bytes >= SMALLEST_SHARE * model_byte) & (transfers.iteration >= FIRST_ITERATION)
    ]
    found = large.groupby("iteration").agg(
        workers=("worker", "nunique"),
        bytes=("bytes", "min"),
        start_ns=("start_ns", "min"),
        end_ns=("end_ns", "max"),
    )
    whole = found[found.workers == workers]
    moved_bit = 8 * whole.bytes * 2 * (workers - 1) / workers
    return [float(value) for value in moved_bit / (whole.end_ns - whole.start_ns) * 1e9]
