"""Where the workers of a job run, and the hosts that sum for their racks if it has such."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from basics.hints import nearest
from basics.units import shown
from policies.cluster.placements import BY_RACK, Racks, last_free, left_by
from testbed.spec.mistakes import At
from workloads import collectives

if TYPE_CHECKING:
    from testbed.spec.jobs import TrainingJob


def hosts_of_workers(job: "TrainingJob", racks: Racks) -> tuple[str, ...]:
    """Rank by rank. Raises ValueError if there are not enough, or too few for the job."""
    hosts = tuple(BY_RACK[job.workers_on](open_to_workers(job, racks)))
    if isinstance(job.workers, tuple):
        there = set(hosts)
        for name in job.workers:
            if name not in there:
                raise ValueError(f"found {shown(name)}, an unknown host{nearest(name, hosts)}")
        if len(set(job.workers)) < len(job.workers):
            raise ValueError("found a host twice; every worker needs a host of its own")
        found = job.workers
    else:
        # A worker beside its own server would not use the network.
        taken = set(job.server_names)
        free = tuple(name for name in hosts if name not in taken) if taken else hosts
        count = len(free) if job.workers == "all" else job.workers
        if count > len(free):
            beside = " without a server of this job" if job.has_servers else ""
            beside += ", one of each rack set aside for sums" if job.sums_on_hosts else ""
            raise ValueError(
                f"found {shown(count)} workers, but there are only {len(free)} hosts{beside}"
            )
        found = free[: max(0, count)]
    least = 1 if job.has_servers else 2
    if len(found) < least:
        what = f"aggregation: {job.aggregation}"
        raise ValueError(f"found {len(found)} workers; {what} needs {least} or more")
    if not job.has_servers:
        odd = collectives.available()[job.aggregation].refuses(len(found))
        if odd is not None:
            raise ValueError(f"found {len(found)} workers; {job.aggregation} {odd}")
    return found


def hosts_before_servers(job: "TrainingJob", racks: Racks) -> list[str]:
    """Of workers that are listed or counted, and of those who sum for them: servers have others."""
    hosts: Sequence[str] = job.workers if isinstance(job.workers, tuple) else ()
    if isinstance(job.workers, int):
        hosts = BY_RACK[job.workers_on](open_to_workers(job, racks))[: max(0, job.workers)]
    return [*hosts, *_last_of_their_racks(job, hosts, racks)]


def open_to_workers(job: "TrainingJob", racks: Racks) -> Racks:
    """Racks without the host that sums there, unless the file lists the workers."""
    if not job.sums_on_hosts or isinstance(job.workers, tuple):
        return racks
    return left_by(last_free(racks, _known_servers(job)), racks)


def hosts_that_sum(job: "TrainingJob", workers: Sequence[str], racks: Racks) -> tuple[str, ...]:
    """One of each rack with workers, in their order."""
    found = _last_of_their_racks(job, workers, racks)
    if job.sums_on_hosts and len(found) < len(set(job.racks)):
        raise At(
            ["reduce", "aggregator"],
            "found host, but a rack has no host without a worker or a server of this job: leave "
            "one there",
        )
    return tuple(found)


def _last_of_their_racks(job: "TrainingJob", workers: Sequence[str], racks: Racks) -> list[str]:
    """The last hosts of these workers' racks without a rank of this job, where there are."""
    if not job.sums_on_hosts:
        return []
    rack_of = {host: tuple(rack) for rack in racks for host in rack}
    theirs = dict.fromkeys(rack_of[host] for host in workers if host in rack_of)
    return last_free(list(theirs), {*workers, *_known_servers(job)})


def _known_servers(job: "TrainingJob") -> tuple[str, ...]:
    return job.servers_on if isinstance(job.servers_on, tuple) else ()
