"""Bus bandwidth of the native all-reduce over the configured rate, in experiment time."""

from collections import defaultdict

from bench.base import Effort, Ratio, played
from testbed.folder import Row
from testbed.records import TABLES

GOAL = 0.85
HOSTS, RATE_BPS = 8, 10_000_000_000
WARM_ITERATIONS = 1  # TCP's windows grow in the first

# Next to no compute, and one transfer for nearly all gradients: what is left is the all-reduce.
EXPERIMENT = """
name: bench-all-reduce
topology: {{kind: tor, hosts: {hosts}, rate: {rate_gbit} Gbit/s, delay: about 10 us,
  queue: 1000 packets}}
duration: {duration_ms} ms
training:
  - {{name: job, profile: resnet50-thesis, model: 100 MB, iteration: 100 us, fusion: 100 MB,
     barrier: true}}
policies: [fifo]
seeds: [0]
dilation: auto
"""


def measure(effort: Effort) -> list[Ratio]:
    hosts, rate_bps, duration_ms = (
        (3, RATE_BPS // 10, 5000) if effort.tiny else (HOSTS, RATE_BPS, 800)
    )
    text = EXPERIMENT.format(hosts=hosts, rate_gbit=rate_bps / 1e9, duration_ms=duration_ms)
    values = []
    for repeat in range(effort.repeats):
        found = played(text, seed=repeat)
        dilation = found.dilation
        values += bus_bandwidths_bps(found.played.tables["transfers"], hosts)
    return [
        Ratio(
            f"bus bandwidth over rate, {hosts} hosts at {rate_bps / 1e9:g} Gbit/s",
            tuple(value / rate_bps for value in values),
            GOAL,
            note=f"{len(values)} all-reduces at dilation {dilation:g}",
        )
    ]


def bus_bandwidths_bps(transfers: list[Row], workers: int) -> list[float]:
    """Of each iteration's largest all-reduce that every worker finished, from the first worker's
    start to the last one's end."""
    columns = TABLES["transfers"].names
    by_transfer: dict[tuple[int, int], list[dict[str, int]]] = defaultdict(list)
    for row in transfers:
        found = dict(zip(columns, row, strict=True))
        by_transfer[found["iteration"], found["transfer"]].append(found)
    largest: dict[int, list[dict[str, int]]] = {}
    for (iteration, _), rows in by_transfer.items():
        best = largest.get(iteration)
        if len(rows) == workers and (best is None or rows[0]["bytes"] > best[0]["bytes"]):
            largest[iteration] = rows
    most_byte = max(rows[0]["bytes"] for rows in largest.values())
    return [
        2
        * (workers - 1)
        / workers
        * 8
        * rows[0]["bytes"]
        * 1e9
        / (max(row["end_ns"] for row in rows) - min(row["start_ns"] for row in rows))
        for iteration, rows in sorted(largest.items())
        if iteration >= WARM_ITERATIONS and rows[0]["bytes"] == most_byte
    ]
