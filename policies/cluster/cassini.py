"""CASSINI (NSDI 2024): iterations of jobs that share links begin so that they send by turns.

For every set of jobs that share links, the circles of the most contended one (`circles.py`) say how
much later each has to begin. `consistent` makes one shift a job of it by walking from set to set;
a set that closes a loop is left out, the most contended ones are not.

A shift needs to know when iterations begin. So when jobs have come together and been measured, it
looks every 5 degrees until each has been seen to end an iteration, and shifts them once. Every
`check` it looks whether they have drifted: if one takes `drift` longer than it would alone, though
the circles have a place for it, they are arranged anew. Jobs start as under `fifo` that does not
block: CASSINI's choice among candidate placements is not here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from basics.options import Option
from policies.cluster.circles import ANGLES, Circle, common, score, turned
from policies.cluster.crux import sending_s
from policies.cluster.filling import filled, wanting
from policies.cluster.scheduler import RUNNING, Action, Event, Ruling, Scheduler, Shift, Snapshot
from policies.cluster.sharing import Loads, by_jobs, groups, loads, placed
from policies.cluster.training_view import Traffic

Key = tuple[tuple[int, tuple[int, ...]], ...]  # jobs and where they are


@dataclass(frozen=True)
class Watched:
    """What it has arranged, and, of jobs that are being watched, what was seen."""

    arranged: frozenset[Key] = frozenset()
    done: Mapping[int, int] = field(default_factory=dict)  # iterations at the last look
    ended_ns: Mapping[int, int] = field(default_factory=dict)  # when one was seen to end


@dataclass(frozen=True)
class Turns:
    """A set of jobs that share links, and how much later each is to begin there."""

    jobs: tuple[int, ...]
    by_ns: tuple[int, ...]
    unturned: float  # the score without
    turned: float


def decide(
    snapshot: Snapshot, event: Event, memory: Watched | None, check_ns: int, drift: float
) -> Ruling:
    actions = filled(snapshot, wanting(snapshot))
    training = snapshot.training
    if training is None:
        return Ruling(actions)
    hosts = placed(snapshot)
    sent = loads(snapshot, hosts)
    known, looks = memory or Watched(), [snapshot.time_ns + check_ns]
    arranged: set[Key] = set()
    watched: set[int] = set()
    for group in groups(sent, by_jobs(sent)):
        if len(group) < 2 or not _settled(snapshot, group):
            continue
        key = tuple((job, hosts[job]) for job in group)
        of = {job: sent[job] for job in group}
        if key in known.arranged and not _drifted(snapshot, of, drift):
            arranged.add(key)
            continue
        known = _seen(known, snapshot, event, group)
        if all(job in known.ended_ns for job in group):
            actions += _shifts(snapshot, of, known.ended_ns)
            arranged.add(key)
        else:
            watched.update(group)
            looks.append(snapshot.time_ns + step_ns(of, _traffic(snapshot)))
    kept = {name: {job: one for job, one in seen.items() if job in watched}
            for name, seen in (("done", known.done), ("ended_ns", known.ended_ns))}  # fmt: skip
    look_ns = min(looks) if arranged or watched else None
    return Ruling(actions, Watched(frozenset(arranged), **kept), look_ns)


def _settled(snapshot: Snapshot, jobs: Sequence[int]) -> bool:
    """All of them run where they are, and what an iteration takes there is known."""
    assert snapshot.training is not None
    return all(
        snapshot.training.iteration_ns[job]
        and (snapshot.task_state[snapshot.tasks_of(job)] == RUNNING).all()
        for job in jobs
    )


def _seen(memory: Watched, snapshot: Snapshot, event: Event, jobs: Sequence[int]) -> Watched:
    assert snapshot.training is not None
    done, ended = dict(memory.done), dict(memory.ended_ns)
    for job in jobs:
        now = int(snapshot.training.iterations_done[job])
        if (event.what == "profiled" and job in event.jobs) or now > done.get(job, now):
            ended[job] = snapshot.time_ns
        done[job] = now
    return replace(memory, done=done, ended_ns=ended)


def _traffic(snapshot: Snapshot) -> Traffic:
    assert snapshot.training is not None
    assert snapshot.training.traffic is not None
    return snapshot.training.traffic


def periods(of: Mapping[int, Loads], traffic: Traffic) -> dict[int, int]:
    """What an iteration of each takes alone, in ns."""
    return {
        job: int(traffic.compute_ns[job] + 1e9 * sending_s(links, traffic.link_bps))
        for job, links in of.items()
    }


def step_ns(of: Mapping[int, Loads], traffic: Traffic) -> int:
    return max(1, min(periods(of, traffic).values()) // ANGLES)


def _drifted(snapshot: Snapshot, of: Mapping[int, Loads], drift: float) -> bool:
    training = snapshot.training
    assert training is not None
    alone = periods(of, _traffic(snapshot))
    slow = {job for job in of if training.iteration_ns[job] > (1 + drift) * alone[job]}
    return any(
        slow.intersection(one.jobs) and one.turned > one.unturned
        for one in link_turns(of, _traffic(snapshot))
    )


def link_turns(of: Mapping[int, Loads], traffic: Traffic) -> list[Turns]:
    """For every set of jobs that share links, what its most contended link wants."""
    alone, slot_ns = periods(of, traffic), step_ns(of, traffic)
    found = []
    for jobs, links in by_jobs(of).items():
        wanted = []
        for link in links:
            circles = [
                circle(of[job][link], alone[job], int(traffic.compute_ns[job]), slot_ns)
                for job in jobs
            ]
            capacity = float(traffic.link_bps[link])
            slots = common(circles)
            if slots is not None:
                asked = sum((one.demand(slots, 0) for one in circles), np.zeros(slots))
                wanted.append((score(asked, capacity), link, circles, capacity))
        if wanted:
            unturned, _, circles, capacity = min(wanted, key=lambda one: one[:2])
            best, slots_later = turned(circles, capacity)
            by_ns = tuple(turn * slot_ns for turn in slots_later)
            found.append(Turns(jobs, by_ns, unturned, best))
    return sorted(found, key=lambda one: (one.unturned, one.jobs))


def circle(byte: int, period_ns: int, compute_ns: int, slot_ns: int) -> Circle:
    """A job on a link in slots: it computes, then sends evenly until its iteration is over."""
    period = max(1, round(period_ns / slot_ns))
    sends = min(period, max(1, round((period_ns - compute_ns) / slot_ns)))
    return Circle(period, sends, 8e9 * byte / (sends * slot_ns))


def consistent(wanted: Sequence[Turns], alone: Mapping[int, int]) -> dict[int, int]:
    """A time to begin at for each job, from the first set on; one that closes a loop has no say."""
    begins = dict.fromkeys(alone, 0)
    group = {job: job for job in alone}
    for one in wanted:
        if len({group[job] for job in one.jobs}) < len(one.jobs):
            continue
        first = one.jobs[0]
        for job, by_ns in zip(one.jobs[1:], one.by_ns[1:], strict=True):
            moved = begins[first] - one.by_ns[0] + by_ns - begins[job]
            old = group[job]
            for other in [other for other in group if group[other] == old]:
                begins[other] += moved
                group[other] = group[first]
    return {job: begin % alone[job] for job, begin in begins.items()}


def _shifts(
    snapshot: Snapshot, of: Mapping[int, Loads], ended_ns: Mapping[int, int]
) -> tuple[Action, ...]:
    """The first job stays, and all others begin when that makes it right."""
    traffic, training = _traffic(snapshot), snapshot.training
    assert training is not None
    alone, slot_ns = periods(of, traffic), step_ns(of, traffic)
    begins = consistent(link_turns(of, traffic), alone)
    next_ns = {}
    for job in of:
        iteration_ns = int(training.iteration_ns[job])
        over = (snapshot.time_ns - ended_ns[job]) // iteration_ns + 1
        next_ns[job] = ended_ns[job] + over * iteration_ns
    first = min(of)
    origin_ns = next_ns[first] - begins[first]
    found = []
    for job in sorted(of):
        by_ns = (origin_ns + begins[job] - next_ns[job]) % alone[job]
        if slot_ns <= by_ns <= alone[job] - slot_ns:  # else it is there, as far as can be seen
            found.append(Shift(job, by_ns))
    return tuple(found)


SCHEDULER = Scheduler(
    name="cassini",
    title="CASSINI",
    description="iterations of jobs that share links are shifted so that they take turns",
    decide=decide,
    options={
        "check": Option("how often it looks for drift", 10**6, 10**15, 60 * 10**9, unit="ns"),
        "drift": Option("how much longer an iteration may take", 0.001, 10, 0.05, step=None),
    },
    needs_traffic=True,
)
