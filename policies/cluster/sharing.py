"""Which training jobs share links: what schedulers that know the network start from."""

from collections.abc import Iterable, Mapping, Sequence

from policies.cluster.scheduler import Action, Move, Resume, Snapshot, Start

Loads = Mapping[str, int]  # bytes of an iteration on each link


def placed(snapshot: Snapshot, actions: Iterable[Action] = ()) -> dict[int, tuple[int, ...]]:
    """The hosts of every training job that has some, once these actions are done."""
    if snapshot.training is None:
        return {}
    trains = snapshot.training.trains
    found = {
        job: tuple(snapshot.task_host[snapshot.tasks_of(job)].tolist())
        for job in range(len(snapshot.tasks))
        if trains[job] and snapshot.running[job]
    }
    for action in actions:
        if isinstance(action, Start | Resume | Move) and trains[action.job]:
            found[action.job] = action.hosts
    return found


def loads(snapshot: Snapshot, hosts: Mapping[int, tuple[int, ...]]) -> dict[int, Loads]:
    """What each of these jobs puts on which links in an iteration; those that send nothing not."""
    assert snapshot.training is not None
    traffic = snapshot.training.traffic
    assert traffic is not None
    found = {job: traffic.loads(job, where) for job, where in hosts.items()}
    return {job: links for job, links in found.items() if any(links.values())}


def by_jobs(of: Mapping[int, Loads]) -> dict[tuple[int, ...], list[str]]:
    """Links that several jobs use, by who does."""
    users: dict[str, list[int]] = {}
    for job in sorted(of):
        for link, byte in of[job].items():
            if byte:
                users.setdefault(link, []).append(job)
    found: dict[tuple[int, ...], list[str]] = {}
    for link, jobs in sorted(users.items()):
        if len(jobs) > 1:
            found.setdefault(tuple(jobs), []).append(link)
    return found


def groups(jobs: Iterable[int], together: Iterable[Sequence[int]]) -> list[list[int]]:
    """Jobs that are connected through links they share, directly or by others; also single ones."""
    leader = {job: job for job in jobs}

    def led_by(job: int) -> int:
        while leader[job] != job:
            job = leader[job]
        return job

    for several in together:
        for other in several[1:]:
            leader[led_by(other)] = led_by(several[0])
    found: dict[int, list[int]] = {}
    for job in sorted(leader):
        found.setdefault(led_by(job), []).append(job)
    return sorted(found.values())
