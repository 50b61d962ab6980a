"""From an experiment and a job to what its iterations take under other settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from basics import units
from basics.errors import BadInput
from basics.hints import nearest
from testbed import engines
from testbed.engine import Run
from testbed.run_folder import RunFolder
from testbed.spec import Experiment
from testbed.spec.jobs import TrainingJob
from testbed.spec.transfer import TransferChoice
from testbed.tune.search import Point, TunedOption

TUNED = ("partition", "credit")
LEAST_BYTE = 64_000  # below a few packets a round trip, nobody gains from smaller parts
MOST_PARTS = 4000  # of an iteration: what a search can afford


@dataclass(frozen=True)
class Problem:
    """A job of an experiment whose transfer policy is tuned; `names` of options, in this order."""

    experiment: Experiment
    job: TrainingJob
    names: tuple[str, ...]

    @property
    def transfer(self) -> TransferChoice:
        assert self.job.transfer is not None, "checked by `problem`"
        return self.job.transfer

    @property
    def axes(self) -> list[TunedOption]:
        sizes = [layer.bytes for layer in self.job.scaled_profile.layers]
        low = min(max(LEAST_BYTE, sum(sizes) // MOST_PARTS), max(sizes))
        high = {"partition": max(sizes), "credit": sum(sizes)}
        return [TunedOption(name, low, high[name]) for name in self.names]

    @property
    def own(self) -> Point:
        """What the file says, or the policy by itself."""
        policy = self.transfer.transfer_policy
        values = {"partition": policy.partition_byte, "credit": policy.credit_byte}
        return tuple(values[name] for name in self.names)

    def said(self, point: Point) -> dict[str, str]:
        return {
            name: units.format_size(value) for name, value in zip(self.names, point, strict=True)
        }

    def with_settings(self, point: Point) -> Experiment:
        """The experiment with these settings of the job's policy."""
        choice = TransferChoice.model_validate({**self.transfer.plain(), **self.said(point)})
        jobs = tuple(
            one.model_copy(update={"transfer": choice}) if one is self.job else one
            for one in self.experiment.training
        )
        return self.experiment.model_copy(update={"training": jobs})


def problem(experiment: Experiment, job: str | None, names: Sequence[str]) -> Problem:
    """Refuses, in one line, what cannot be tuned."""
    for name in names:
        if name not in TUNED:
            raise BadInput(f"--over {name}: unknown; it must be {' or '.join(TUNED)}, or both")
    if not names or len(set(names)) < len(names):
        raise BadInput("--over: name partition, credit, or both, each once")
    if experiment.transfers:
        raise BadInput("transfers: holds for every job; leave it out: --set transfers=[]")
    jobs = {one.name: one for one in experiment.training}
    if job is None and len(jobs) != 1:
        raise BadInput(f"--job: the file has {len(jobs)} jobs; name one of them: {', '.join(jobs)}")
    name = job or next(iter(jobs))
    if name not in jobs:
        raise BadInput(f"--job {name}: not in this file{nearest(name, jobs)}")
    chosen = jobs[name]
    if chosen.transfer is None:
        raise BadInput(
            f"job {name}: it has no transfer, so nothing to tune; add one that takes partition "
            "and credit: transfer: bytescheduler"
        )
    policy = chosen.transfer.transfer_policy
    if "credit" in names and chosen.has_servers and not policy.holds_pushes:
        raise BadInput(
            f"--over credit: {policy.name} holds nothing back on its way to servers; tune "
            "partition alone, or another policy"
        )
    return Problem(experiment, chosen, tuple(names))


def iteration_ns(
    problem: Problem, engine_name: str, folder: Path, run_id: str
) -> Callable[[Point], float]:
    """The mean length of the job's iterations under the file's first policy, over all seeds.

    Settings under which no iteration fits between warmup and cooldown count as that long.
    """
    engine = engines.get(engine_name)
    setting = engine.settle(problem.experiment, lambda line: None, run_id)

    def measured(point: Point) -> float:
        experiment = problem.with_settings(point)
        name = "-".join(str(value) for value in point)
        lengths = []
        for seed in experiment.seeds:
            run = Run(experiment, experiment.choices[0], seed, run_id)
            to = folder / engine_name / name / f"seed-{seed}"
            engine.execute(run, RunFolder(to), setting, lambda time_ns: None)
            lengths.append(_lengths_ns(to, problem.job.name, experiment.window_ns))
        every = pd.concat(lengths)
        return longest_ns(experiment) if every.empty else float(every.mean())

    return measured


def longest_ns(experiment: Experiment) -> float:
    begin_ns, end_ns = experiment.window_ns
    return float(end_ns - begin_ns)


def _lengths_ns(folder: Path, job: str, window_ns: tuple[int, int]) -> "pd.Series[int]":
    table = pd.read_parquet(folder / "iterations.parquet")
    inside = (table.start_ns >= window_ns[0]) & (table.end_ns <= window_ns[1])
    rows = table[(table.job == job) & inside]
    return rows.end_ns - rows.start_ns
