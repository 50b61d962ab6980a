"""What thousands of parts cost: P3's slices of VGG-19, simulated and on the virtual engine."""

from pathlib import Path
from tempfile import TemporaryDirectory

from basics.errors import CannotRun
from bench import fluid_speed, virtual_speed
from bench.base import Effort, Ratio, loaded_from
from testbed.spec import Experiment
from testbed.virtual import engine

EXPERIMENT = """
name: sliced
topology: {{kind: tor, hosts: 4, rate: 10 Gbit/s, delay: about 10 us, queue: 1000 packets}}
duration: 60 s
training:
  - {{name: vgg19, profile: vgg19-cpu, model: {model}, steps: {steps}, barrier: false,
     aggregation: parameter-server, servers: 4, workers: [h1, h2, h3, h4],
     servers_on: [h1, h2, h3, h4], transfer: {{policy: {policy}, partition: {partition}}}}}
policies: [fifo]
seeds: [0]
"""
WHOLE, SLICE, UNSLICED = "574.66896 MB", "160 kB", "1 GB"
ITERATIONS = 10
MOST_FLUID_S = 5.0
MOST_OVER_UNSLICED = 1.1


def measure(effort: Effort) -> list[Ratio]:
    return [simulated(effort), *live(effort)]


def simulated(effort: Effort) -> Ratio:
    if effort.tiny:
        spent_s = fluid_speed.cpu_s(experiment("10 MB", 1, SLICE), 0)
        return Ratio("simulated, CPU seconds", (spent_s,), 1e9, "at most", "tiny")
    job = experiment(WHOLE, ITERATIONS, SLICE)
    spent = [fluid_speed.cpu_s(job, 0) for _ in range(effort.repeats)]
    return Ratio(
        "simulated: CPU of VGG-19 in slices of 160 kB, 4 workers, 10 iterations, over 5 s",
        tuple(one / MOST_FLUID_S for one in spent),
        1,
        "at most",
        f"{', '.join(f'{one:.1f}' for one in spent)} CPU-s",
    )


def live(effort: Effort) -> list[Ratio]:
    """The same bytes in turn: in slices by P3, in slices that nobody schedules, and unsliced.

    A byte's slices are as many at any size. What slices cost is mostly that each is a message; what
    choosing the next one costs, ranks and credit, is what P3 takes beyond the unscheduled.
    """
    names = (
        "virtual: CPU in slices of 160 kB over whole tensors, the same bytes",
        "virtual: CPU of P3's slices over slices that nobody schedules, the same messages",
    )
    model, steps = ("10 MB", 1) if effort.tiny else ("100 MB", 2)
    ways = [
        experiment(model, steps, SLICE),
        experiment(model, steps, SLICE, policy="fifo"),
        experiment(model, steps, UNSLICED),
    ]
    try:
        engine.demand(ways[0])
    except CannotRun as why:
        return [Ratio(name, (), MOST_OVER_UNSLICED, "at most", str(why)) for name in names]
    turns = [
        [virtual_speed.cpu_s(way)[0] for way in ways]
        for _ in range(1 if effort.tiny else effort.repeats)
    ]
    goal = 1e9 if effort.tiny else MOST_OVER_UNSLICED
    return [
        Ratio(
            name,
            tuple(turn[0] / turn[other] for turn in turns),
            goal,
            "at most",
            ", ".join(f"{turn[0]:.1f} and {turn[other]:.1f}" for turn in turns) + " CPU-s",
        )
        for name, other in zip(names, (2, 1), strict=True)
    ]


def experiment(model: str, steps: int, partition: str, policy: str = "p3") -> Experiment:
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        text = EXPERIMENT.format(model=model, steps=steps, partition=partition, policy=policy)
        return loaded_from(Path(name), text, None)
