"""How late the sleeps end that stand for a layer's compute, in real time."""

from basics.errors import CannotRun
from bench.base import Effort, Ratio, played
from bench.flow_starts import MOST_STEAL, TRIES_A_REPEAT

GOAL = 1.0
UNIT_NS = 500_000  # 0.5 ms
BACKENDS = ("native", "torch")

EXPERIMENT = """
name: bench-trace-sleeps
topology: {{kind: tor, hosts: 4, rate: 200 Mbit/s, delay: about 10 us, queue: 1000 packets}}
duration: {duration}
training:
  - {{name: job, profile: resnet50-thesis, model: 1 MB, iteration: 200 ms, fusion: 0.25 MB,
     backend: {backend}}}
policies: [fifo]
seeds: [0]
dilation: 1
"""


def measure(effort: Effort) -> list[Ratio]:
    return [of_backend(backend, effort) for backend in BACKENDS]


def of_backend(backend: str, effort: Effort) -> Ratio:
    name = f"{backend}: p99 lateness of trace sleeps over 0.5 ms, 4 workers"
    text = EXPERIMENT.format(duration="1 s" if effort.tiny else "5 s", backend=backend)
    values: list[float] = []
    disturbed = 0
    for seed in range(TRIES_A_REPEAT * effort.repeats):
        try:
            outcome = played(text, seed)
        except CannotRun as why:
            return Ratio(name, (), GOAL, "at most", str(why))
        if outcome.steal_share > MOST_STEAL and not effort.tiny:
            disturbed += 1
            continue
        late_ns = outcome.tables["computes"].late_ns
        values.append(float(late_ns.quantile(0.99, interpolation="higher")) / UNIT_NS)
        if len(values) == effort.repeats:
            break
    note = (
        f"{disturbed} runs left out: other machines on this hardware took more than "
        f"{MOST_STEAL:.0%} of the processors"
    )
    return Ratio(name, tuple(values), GOAL, "at most", note if disturbed else "")
