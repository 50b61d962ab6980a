"""Whether receivers that have the kernel drop their bytes leave TCP as prompt receivers do.

The same experiments are played twice in the virtual engine: as they are, and by receivers that
read each packet when it arrives. Means of flow completion and iteration times are compared.

`python -m bench.neutral_receivers` plays the one that misses the goal with other seeds, and with
a microsecond more of delay a link: how far prompt receivers are from themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from unittest import mock

import pandas as pd

from basics.errors import CannotRun
from bench.base import Effort, Ratio, loaded_from, played
from testbed.virtual import engine

GOAL = 0.01
FLOWS_MEAN = "mean completion time"
HEADER = "start_ns,src,dst,size_byte\n"
LATE_IMPORT = """
import sys
sys.path.append({checkout!r})
import workloads.sockets
workloads.sockets.drains = False
"""


def rack(name: str, hosts: int, rate: str, queue: int, duration: str, rest: str) -> str:
    return f"""
name: {name}
topology: {{kind: tor, hosts: {hosts}, rate: {rate}, delay: 10 us, queue: {queue} packets}}
duration: {duration}
{rest}
policies: [fifo]
seeds: [0]
"""


def rows(flows: list[tuple[int, int, int, int]]) -> dict[str, str]:
    lines = [f"{start},h{src},h{dst},{size}\n" for start, src, dst, size in sorted(flows)]
    return {"flows.csv": HEADER + "".join(lines)}


FLOWS = "flows: [{name: f, schedule: flows.csv}]"
MS = 1_000_000
TWO = [(0, 1, 4, 30_000_000), (0, 2, 4, 30_000_000)]
TWO += [(at * MS, 3, 4, 30_000) for at in (10, 20, 30)]
ROUNDS = [
    flow
    for at in range(12)
    for flow in (
        (40 * at * MS, 1, 4, 10_000_000),
        (40 * at * MS + 7_000 * at, 2, 4, 10_000_000),
        *(((40 * at + 3 + k) * MS + 11_000 * at, 3, 4, 30_000) for k in range(10)),
    )
]
INCAST = [
    (20 * at * MS, src, 8, 20_000 + 7_000 * src * at) for at in range(10) for src in range(1, 8)
]
RING = """training:
  - {name: job, profile: resnet50-thesis, model: MODEL, iteration: TIME, fusion: MODEL}"""
MIX = "flows: [{name: f, sizes: web-search, scale: 0.1, arrivals: 46 per second per host}]"

SPINE = """
name: spine
topology: {kind: leaf-spine, hosts: 8, leaves: 2, spines: 2, rate: 1 Gbit/s, delay: 20 us,
           queue: 500 packets}
duration: 1500 ms
training:
  - {name: job, profile: resnet50-thesis, model: 6 MB, iteration: 200 ms, fusion: 1 MB}
flows: [{name: f, sizes: data-mining, scale: 0.01, arrivals: 40 per second per host}]
policies: [strict-priority]
seeds: [2]
"""

# Name to experiment and the files it names; the first is small enough for a test.
EXPERIMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "two long flows and three short ones into a port": (
        rack("two", 4, "10 Gbit/s", 1000, "100 ms", FLOWS),
        rows(TWO),
    ),
    "the same twelve times, shifted": (
        rack("rounds", 4, "10 Gbit/s", 1000, "500 ms", FLOWS),
        rows(ROUNDS),
    ),
    "seven senders at once": (
        rack("incast", 8, "10 Gbit/s", 300, "300 ms", FLOWS),
        rows(INCAST),
    ),
    "a ring": (
        rack(
            "ring",
            3,
            "10 Gbit/s",
            1000,
            "600 ms",
            RING.replace("MODEL", "30 MB").replace("TIME", "60 ms"),
        ),
        {},
    ),
    "flows from the web-search mix": (rack("mix", 4, "1 Gbit/s", 1000, "2 s", MIX), {}),
    "a ring and flows on two racks": (SPINE, {}),
    "a ring and flows": (
        rack(
            "both",
            4,
            "1 Gbit/s",
            1000,
            "1500 ms",
            f"{RING.replace('MODEL', '4 MB').replace('TIME', '100 ms')}\n{MIX}",
        ),
        {},
    ),
}


def measure(effort: Effort) -> list[Ratio]:
    chosen = list(EXPERIMENTS)[:1] if effort.tiny else list(EXPERIMENTS)
    try:
        with TemporaryDirectory() as name:
            engine.demand(loaded_from(Path(name), *EXPERIMENTS[chosen[0]]))
    except CannotRun as why:
        return [Ratio("receivers", (), GOAL, "at most", str(why))]
    return [ratio for name in chosen for ratio in deviations(name)]


def deviations(name: str) -> Iterator[Ratio]:
    """How far the means are from those with prompt receivers, as shares."""
    ours = means(name)
    with prompt_receivers():
        theirs = means(name)
    for what, mean in ours.items():
        note = f"{mean / 1e6:.4g} ms, prompt {theirs[what] / 1e6:.4g} ms"
        off = abs(mean / theirs[what] - 1)
        yield Ratio(f"{name}: {what}, off by", (off,), GOAL, "at most", note)


def means(name: str, seed: int = 0, delay_us: int = 10) -> dict[str, float]:
    """In nanoseconds."""
    text, files = EXPERIMENTS[name]
    text = text.replace("delay: 10 us", f"delay: {delay_us} us")
    tables = played(text, seed, files, engine).tables
    kinds = {"flows": FLOWS_MEAN, "iterations": "mean iteration"}
    return {what: mean_ns(tables[kind]) for kind, what in kinds.items() if len(tables[kind])}


def mean_ns(table: pd.DataFrame) -> float:
    return float((table.end_ns - table.start_ns).mean())


@contextmanager
def prompt_receivers() -> Iterator[None]:
    """Guests whose receivers read each packet when it arrives."""
    plain = engine.in_guest()
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        text = LATE_IMPORT.format(checkout=str(engine.CHECKOUT))
        (Path(name) / "sitecustomize.py").write_text(text)
        changed = [word.replace("PYTHONPATH=", f"PYTHONPATH={name}:") for word in plain]
        with mock.patch.object(engine, "in_guest", return_value=changed):
            yield


def many_times(name: str, seeds: range) -> None:
    """Prints by how much flows take longer than with prompt receivers, pair by pair."""
    apart, chance = [], []
    for seed in seeds:
        prompt = {}
        for delay_us in (10, 11):
            ours = means(name, seed, delay_us)[FLOWS_MEAN]
            with prompt_receivers():
                prompt[delay_us] = means(name, seed, delay_us)[FLOWS_MEAN]
            apart.append(ours / prompt[delay_us] - 1)
            print(f"seed {seed}, {delay_us} us: {apart[-1]:+.1%}", flush=True)
        chance.append(prompt[11] / prompt[10] - 1)
        print(f"seed {seed}, prompt, 11 us against 10: {chance[-1]:+.1%}", flush=True)
    error = stdev(apart) / len(apart) ** 0.5
    print(f"mean of {len(apart)}: {fmean(apart):+.1%}, standard error {error:.1%}")
    print(f"mean size: {size(apart):.1%}; prompt against prompt: {size(chance):.1%}")


def size(shares: list[float]) -> float:
    return fmean(map(abs, shares))


if __name__ == "__main__":
    many_times("a ring and flows", range(8))
