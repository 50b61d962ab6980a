"""What a simulation needs of the machine's memory, said before it starts.

Most of it are tables of connections, steps and flows, and what is written about links. That of a
connection is from two measured runs (16,000 and 64,000 of them on 1,024 hosts: 436 and 751 MB); the
others are rough estimates, of which only the sum was seen to be of the right size.
"""

import psutil

from basics.errors import CannotRun
from testbed.spec import Experiment, TrainingJob
from workloads.schedule import expected_flows

SAMPLES = 100  # of what links carried
BASE = 250_000_000  # the interpreter, its libraries, compiled code
A_CONNECTION = 7_000  # of a training job
A_STEP = 1_000  # of a collective
A_FLOW = 1_500
A_SAMPLE = 250  # of a band at a link


def needed_byte(experiment: Experiment) -> int:
    """About what one run needs."""
    return BASE + sum(_needs(experiment).values())


def _needs(experiment: Experiment) -> dict[str, int]:
    """Bytes, by what would have to be less for them to be fewer."""
    jobs = experiment.training
    bands = max(len(choice.link_policy.bands) for choice in experiment.policies)
    flows = sum(
        expected_flows(mix, experiment.topology.hosts, experiment.duration_ns)
        for mix in experiment.flows
    )
    links = 2 * len(experiment.topology.graph.links)
    return {
        "fewer servers or workers": A_CONNECTION * sum(map(connections, jobs)),
        "larger chunks, or fewer servers or workers": A_STEP * sum(map(steps, jobs)),
        "a shorter duration, or fewer arrivals": round(A_FLOW * flows),
        "a smaller topology": A_SAMPLE * SAMPLES * links * bands,
    }


def connections(job: TrainingJob) -> int:
    """Streams of bytes, there and back, at most."""
    workers = len(job.host_names)
    if not job.has_servers:
        return 2 * workers
    if job.reduce is None:
        return 2 * workers * job.servers
    straight = workers if not job.reduce.multicast else len(set(job.racks))
    return 2 * (workers + len(job.summing_names)) + (len(set(job.racks)) + straight) * job.servers


def steps(job: TrainingJob) -> int:
    """Of pushes and pulls that are summed on the way; rings have none."""
    if job.reduce is None:
        return 0
    pieces = -(-job.model_byte // (job.servers * job.reduce.chunk_byte))
    return 2 * len(job.host_names + job.summing_names) * job.servers * pieces


def demand_memory(experiment: Experiment) -> None:
    """Refuse what would not fit."""
    needed, free = needed_byte(experiment), free_byte()
    if needed <= free:
        return
    needs = _needs(experiment)
    count = sum(map(connections, experiment.training))
    raise CannotRun(
        f"a run needs about {needed / 2**30:.1f} GiB of memory ({count} connections of training "
        f"jobs, {len(experiment.topology.graph.links)} links), and {free / 2**30:.1f} GiB are "
        f"free: most of it goes with {max(needs, key=lambda less: needs[less])}"
    )


def free_byte() -> int:
    return int(psutil.virtual_memory().available)
