"""How large a live network may be: said before anything is started, not found out half-way.

A host costs a shell and a task or two, a switch a shell. Measured with 16 hosts and 20 switches: a
shell has 0.3 MiB of its own and a task 3.3 MiB; the controller holds both ends of a shell's
terminal open and one line to each task.
"""

import resource
from pathlib import Path

import psutil

from basics.errors import CannotRun
from basics.units import format_time
from testbed.live import tc
from testbed.spec import Experiment

BRIDGE_PORTS = 1023  # the kernel's BR_MAX_PORTS, without port 0
FILES_A_NODE, FILES_BESIDES = 2, 64
MIB = 2**20
MEMORY_A_NODE, MEMORY_A_TASK, MEMORY_A_PORT = MIB, 8 * MIB, MIB
# /proc/sys/kernel/pty: so many are kept back from all but the first instance of devpts.
TERMINALS = Path("/proc/sys/kernel/pty")


def demand_bridge(experiment: Experiment) -> None:
    """Both live engines make a single switch as a bridge."""
    graph = experiment.topology.graph
    if not graph.routed and len(graph.hosts) > BRIDGE_PORTS:
        raise CannotRun(
            f"{len(graph.hosts)} hosts on one switch: a Linux bridge has {BRIDGE_PORTS} ports; "
            "take a leaf-spine or a fat-tree, or an engine that has no ports"
        )


def demand_delay(experiment: Experiment) -> None:
    """tc takes netem's delay in whole microseconds, and cuts off the rest without a word."""
    delay_ns = experiment.topology.delay.ns
    if delay_ns % tc.DELAY_STEP_NS:
        below_ns = delay_ns - delay_ns % tc.DELAY_STEP_NS
        near = [ns for ns in (below_ns, below_ns + tc.DELAY_STEP_NS) if ns]
        raise CannotRun(
            f"topology.delay: found {format_time(delay_ns)}; tc sets whole microseconds: take "
            f"{' or '.join(map(format_time, near))}, or `--engine fluid`"
        )


def files_of(experiment: Experiment) -> int:
    """How many files the controller of a live run has open."""
    graph = experiment.topology.graph
    nodes = len(graph.hosts) + len(graph.switches)
    return FILES_A_NODE * nodes + tasks_of(experiment) + FILES_BESIDES


def tasks_of(experiment: Experiment) -> int:
    workers = sum(len(job.host_names) for job in experiment.training)
    hosts = experiment.topology.hosts
    daemons = hosts + 1 if experiment.cluster is not None else 0
    entries = () if experiment.cluster is None else experiment.cluster.jobs
    ranks = sum((one.count or 0) * (one.workers or (0, 0))[1] for one in entries if one.is_real)
    return workers + (hosts if experiment.flows else 0) + daemons + ranks + 1


def demand_room(experiment: Experiment) -> None:
    """Refuse what this machine has no files, terminals or memory for, as a realtime run."""
    demand_bridge(experiment)
    graph = experiment.topology.graph
    nodes = len(graph.hosts) + len(graph.switches)
    what = f"{len(graph.hosts)} hosts and {len(graph.switches)} switches need"
    demand_files(files_of(experiment), what)
    free = terminals_free()
    if nodes > free:
        raise CannotRun(
            f"{what} {nodes} terminals, and {free} are free: raise the sysctl kernel.pty.max"
        )
    ports = 2 * len(graph.links)
    needed = nodes * MEMORY_A_NODE + tasks_of(experiment) * MEMORY_A_TASK + ports * MEMORY_A_PORT
    memory = psutil.virtual_memory().available
    if needed > memory:
        raise CannotRun(
            f"{what} {needed / 2**30:.1f} GiB of memory, and {memory / 2**30:.1f} GiB are free"
        )


def demand_files(needed: int, what: str) -> None:
    """Let this process, and what it starts, have so many files open; refuse if it may not."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed >= needed or allowed == resource.RLIM_INFINITY:
        return
    if most < needed and most != resource.RLIM_INFINITY:
        raise CannotRun(
            f"{what} {needed} open files, and {most} are allowed: raise it with `ulimit -n`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def terminals_free() -> int:
    most, kept, used = (int((TERMINALS / name).read_text()) for name in ("max", "reserve", "nr"))
    return most - kept - used
