"""Crux (SIGCOMM 2024): of jobs that share links, who computes more for what it sends goes first.

A job's intensity is what its workers compute in an iteration for each second that its most loaded
link sends. Whoever has more of it keeps more GPUs busy with the same bytes, so it gets the better
band. Among equals (to a hundredth of the highest) the one with the shorter iteration goes first, as
in Crux's first example; its correction for jobs that are nearly equal is not here.

Jobs that share no link, directly or through others, are ordered apart. Where there are more jobs
than bands, neighbours in the order share one. Jobs start as under `fifo`, and others may pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from basics.options import Choice, Option
from policies.cluster.filling import filled, wanting
from policies.cluster.scheduler import Event, Prioritise, Ruling, Scheduler, Snapshot
from policies.cluster.sharing import Loads, by_jobs, groups, loads, placed
from policies.cluster.training_view import Traffic

SHORTER, LONGER = "shorter", "longer"


def decide(snapshot: Snapshot, event: Event, memory: Any, spare: int, equals: str) -> Ruling:
    actions = filled(snapshot, wanting(snapshot))
    training = snapshot.training
    if training is None or training.steered:
        return Ruling(actions)
    bands = training.bands[min(spare, len(training.bands) - 1) :]
    hosts = placed(snapshot, actions)
    sent = loads(snapshot, hosts)
    assert training.traffic is not None
    now = {job: training.bands[band] for job, band in enumerate(training.band.tolist())}
    for group in groups(sent, by_jobs(sent)):
        workers = {job: len(hosts[job]) for job in group}
        order = ordered(group, workers, sent, training.traffic, equals)
        for place, job in enumerate(order):
            band = bands[level(place, len(order), len(bands))]
            if band != now[job]:
                actions += (Prioritise(job, band),)
    return Ruling(actions)


def ordered(
    jobs: Sequence[int],
    workers: Mapping[int, int],
    sent: Mapping[int, Loads],
    traffic: Traffic,
    equals: str = SHORTER,
) -> list[int]:
    """By intensity, the highest first; then by the length of an iteration; then as they came."""
    seconds = {job: sending_s(sent[job], traffic.link_bps) for job in jobs}
    compute = {job: float(traffic.compute_ns[job]) / 1e9 for job in jobs}
    intensity = {job: workers[job] * compute[job] / seconds[job] for job in jobs}
    most = max(intensity.values()) or 1.0
    sign = 1 if equals == SHORTER else -1
    length = {job: sign * (compute[job] + seconds[job]) for job in jobs}
    return sorted(jobs, key=lambda job: (-round(intensity[job] / most, 2), length[job], job))


def sending_s(links: Loads, link_bps: Mapping[str, int]) -> float:
    """How long the most loaded link is busy with an iteration."""
    return max(8 * byte / link_bps[link] for link, byte in links.items())


def level(place: int, jobs: int, bands: int) -> int:
    """Which band the job at this place of the order gets: the first ones, or even parts of all."""
    return place if jobs <= bands else place * bands // jobs


SCHEDULER = Scheduler(
    name="crux",
    title="Crux",
    description="of jobs that share links, the one with more compute per communication goes first",
    decide=decide,
    options={
        "spare": Option("how many of the first bands no job is put into", 0, 2, 0),
        "equals": Choice("which iteration goes first among equals", (SHORTER, LONGER), SHORTER),
    },
    needs_traffic=True,
)
