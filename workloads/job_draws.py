"""Which jobs come to a cluster, when, and what they need: read from a trace or drawn from a seed.

Jobs depend on the experiment file and the seed alone, so every scheduler sees the same ones. Every
column of every entry has a random stream of its own: changing one leaves all others alone.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from basics.resources import GPU, NAMES, NETWORK, THOUSANDTHS, Amounts, amounts
from basics.units import LARGEST
from workloads import traces
from workloads.busy_job import BusyJob, in_order
from workloads.training_work import TrainingWork

Integers = npt.NDArray[np.int64]
Span = tuple[int, int]  # the least and the most, both drawn too

MINUTE_NS = 60 * 10**9
# After Philly, as Gavel draws it: GPUs and how likely they are, and powers of ten of minutes.
PHILLY_GPUS = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
PHILLY_MINUTES = ((1.5, 3.0), (3.0, 4.0))
PHILLY_SHORT = 0.8  # the part of jobs that take the first of them


class JobEntry(Protocol):
    """An entry of `cluster.jobs`: a file, or how many jobs to draw and from what."""

    name: str
    trace: Path | None
    format: str
    count: int | None
    arrivals: tuple[str, int] | None  # "uniform" or "poisson", over so many ns; or "at" one
    like: str | None
    tasks: Span
    gang: bool
    duration_ns: Span | None
    deadline: float | None  # so many times as long as alone
    workers: Span | None  # of jobs that train
    iterations: Span | None

    def work(self, entry: int, workers: int, iterations: int, rate_bps: int) -> TrainingWork:
        """What such a job of this entry has to do."""

    @property
    def needs(self) -> Mapping[str, Span]:
        """Of a task, by resource."""


def jobs_of(entries: Sequence[JobEntry], capacity: Amounts, hosts: int, seed: int) -> list[BusyJob]:
    """All jobs of a cluster, in the order of their arrival."""
    found = [
        job
        for at, entry in enumerate(entries)
        for job in _entry_jobs(at, entry, capacity, hosts, seed)
    ]
    return in_order(found)


def _entry_jobs(
    at: int, entry: JobEntry, capacity: Amounts, hosts: int, seed: int
) -> Iterator[BusyJob]:
    jobs = drawn(entry, seed) if entry.trace is None else replayed(entry)
    for job in jobs:
        if entry.iterations is not None:
            job = trained(at, entry, job, capacity[NETWORK])
        alone_ns = job.alone_ns(capacity, hosts)
        if job.deadline_ns is None and entry.deadline is not None and alone_ns is not None:
            due_ns = job.submitted_ns + round(alone_ns * entry.deadline)
            job = replace(job, deadline_ns=min(due_ns, LARGEST))
        yield job


def replayed(entry: JobEntry) -> list[BusyJob]:
    assert entry.trace is not None
    jobs = traces.read(entry.trace, entry.format, entry.count)
    return [replace(job, name=f"{entry.name}-{job.name}") for job in jobs]


def drawn(entry: JobEntry, seed: int) -> list[BusyJob]:
    assert entry.count is not None
    assert entry.arrivals is not None
    key = zlib.crc32(entry.name.encode())
    streams = iter(np.random.SeedSequence(seed, spawn_key=(key,)).spawn(3 + len(NAMES)))
    submitted = arrivals(*entry.arrivals, entry.count, np.random.default_rng(next(streams)))
    of_tasks, of_time = (np.random.default_rng(next(streams)) for _ in range(2))
    if entry.like == "philly":
        tasks, duration_ns = philly(entry.count, of_tasks, of_time)
    else:
        lasts = entry.duration_ns or entry.iterations
        assert lasts is not None
        tasks = between(entry.workers or entry.tasks, entry.count, of_tasks)
        duration_ns = between(lasts, entry.count, of_time, by=1 if entry.iterations else None)
    needs = [
        between(entry.needs[name], entry.count, np.random.default_rng(stream)).tolist()
        for name, stream in zip(NAMES, streams, strict=True)
    ]
    columns = zip(submitted.tolist(), duration_ns.tolist(), tasks.tolist(), *needs, strict=True)
    return [
        BusyJob(f"{entry.name}-{number}", at, lasts, count, tuple(demand), entry.gang)
        for number, (at, lasts, count, *demand) in enumerate(columns)
    ]


def trained(at: int, entry: JobEntry, job: BusyJob, rate_bps: int) -> BusyJob:
    """A drawn job of an entry that trains: what was drawn as its duration are its iterations."""
    assert job.duration_ns is not None
    work = entry.work(at, job.tasks, job.duration_ns, rate_bps)
    return replace(job, duration_ns=work.iterations * work.iteration_ns, gang=True, work=work)


def arrivals(kind: str, over_ns: int, count: int, generator: np.random.Generator) -> Integers:
    """Uniform: anywhere in that time. Poisson: one after the other at that rate. At: then."""
    if kind == "at":
        return np.full(count, over_ns, dtype=np.int64)
    if kind == "uniform":
        times = np.sort(generator.uniform(0, over_ns, count))
    else:
        times = np.cumsum(generator.exponential(over_ns / count, count))
    return times.astype(np.int64)


def between(
    span: Span, count: int, generator: np.random.Generator, by: int | None = None
) -> Integers:
    """Whole units where both ends are whole: 1 to 4 GPUs are 1, 2, 3 or 4."""
    low, high = span
    whole = low % THOUSANDTHS == high % THOUSANDTHS == 0
    step = by or (THOUSANDTHS if whole else 1)
    return generator.integers(low // step, high // step, count, endpoint=True) * step


def philly(
    count: int, of_gpus: np.random.Generator, of_time: np.random.Generator
) -> tuple[Integers, Integers]:
    """A task for each GPU, and how long they take."""
    gpus = of_gpus.choice(list(PHILLY_GPUS), count, p=list(PHILLY_GPUS.values()))
    short = of_time.random(count) < PHILLY_SHORT
    powers = [of_time.uniform(*ends, count) for ends in PHILLY_MINUTES]
    minutes = 10.0 ** np.where(short, *powers)
    return gpus.astype(np.int64), (minutes * MINUTE_NS).astype(np.int64)


def largest(entry: JobEntry, rate_bps: int) -> BusyJob:
    """A job that needs as much as any that an entry can draw."""
    needs = {name: span[1] for name, span in entry.needs.items()}
    most = max(PHILLY_GPUS) if entry.like == "philly" else (entry.workers or entry.tasks)[1]
    if entry.iterations is not None:
        job = BusyJob(entry.name, 0, entry.iterations[1], most, amounts(needs))
        return trained(0, entry, job, rate_bps)
    longest_ns = entry.duration_ns[1] if entry.duration_ns else None
    return BusyJob(entry.name, 0, longest_ns, most, amounts(needs), entry.gang)


PHILLY_NEEDS = {NAMES[GPU]: (THOUSANDTHS, THOUSANDTHS)}  # of a task, if the file says nothing
