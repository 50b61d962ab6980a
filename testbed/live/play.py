"""One run on a live network: build it, start the tasks, let them play, take it down.

The realtime engine does this on the machine's own kernel, where time may be dilated; the virtual
engine inside a kernel whose clock is virtual. What a policy, a profile or a schedule means is not
decided here.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.containers.view import Room
from testbed.engine import Performance, Run, Setting, Wiring
from testbed.live import hosts_file, kernel_marks, transport
from testbed.live.crew import HANG_LIMIT_S, Crew
from testbed.live.network import Network
from testbed.live.stage import Stage
from testbed.processes import Nursery, Task
from testbed.run_folder import RunFolder
from testbed.spec.hosts import DOCKER
from testbed.spec.policy import server_map
from testbed.stacks import image_of, preload
from workloads.schedule import schedule_of
from workloads.task import BEAT_REAL_NS

if TYPE_CHECKING:
    from testbed.containers.hosts import Containers

START_AHEAD_NS = 200_000_000  # from `go` to time zero, so that everyone has heard it
START_GRID_NS = 1_000_000_000
LOOK_S = 0.25  # how often somebody looks whether all tasks live


def perform(
    run: Run,
    setting: Setting,
    folder: RunFolder,
    on_time: Callable[[int], None],
    *,
    measure_link: bool,
) -> Performance:
    """Play a run from nothing to nothing; its records are then in the folder's journals.

    `on_time` hears how far it is, in experiment time. `measure_link` sends iperf3 over one link
    first, to see whether this machine really carries what the kernel promises.
    """
    policy = run.choice.link_policy
    hosts_file.write(folder.journals, setting.topology.hosts)
    with (
        containers_of(run, folder) as containers,
        Network(
            setting.topology,
            policy,
            setting.wiring,
            run_id=run.run_id,
            containers=containers.pids if containers else None,
            servers=server_map(run.experiment.training),
            marking=kernel_marks.marking_of(run.experiment, run.choice, setting.wiring.dilation),
        ) as network,
        Nursery(
            run.run_id,
            folder.logs / "nursery.log",
            outrank=setting.wiring.timer_slack_ns > 0,
            preload=() if containers else preload(run.experiment),  # workers live elsewhere
            names=folder.journals,
        ) as nursery,
    ):
        on_time(0)  # a sign of life: large libraries have been loaded
        description = described(run, network)
        ratio = shaped_rate_ratio(network, nursery, folder) if measure_link else None
        with containers.explaining() if containers else nullcontext():
            rooms = containers.rooms if containers else {}
            measured, lost, final = play(run, network, nursery, folder, on_time, rooms)
    return Performance(
        description, {"shaped_rate_ratio": ratio, **measured}, lost=lost, states=final
    )


def containers_of(run: Run, folder: RunFolder) -> AbstractContextManager["Containers | None"]:
    """The containers that are this run's hosts, if they are to be containers."""
    if run.experiment.hosts != DOCKER:
        return nullcontext()
    from testbed.containers.hosts import Containers

    experiment = run.experiment
    return Containers(
        experiment.host_names,
        experiment.container,
        run.run_id,
        folder,
        image_of(experiment),
        preload(experiment),
        own_names=folder.journals,
    )


def described(run: Run, network: Network) -> dict[str, Any]:
    delay = run.experiment.topology.delay
    first, second, *_ = network.topology.hosts
    if network.topology.routed:
        second = network.topology.hosts[-1]  # the first two may be in one rack
    return {
        **transport.held(network.wiring, transport.tick_ns()),
        "offload": network.wiring.offload,
        "delay_asked_ns": delay.ns,
        "delay_strict": delay.strict,
        "netem": network.wiring.netem,
        "idle_rtt_ns": network.idle_rtt_ns(first, second),
        "ports": [
            {"link": link, "asked_bps": asked, "read_bps": read}
            for link, asked, read in network.asked_and_read_bps()
        ],
        **({"kernel_marks": kernel_marks.facts(network.marking)} if network.marking else {}),
    }


def shaped_rate_ratio(network: Network, nursery: Nursery, folder: RunFolder) -> float:
    """What one link carries, over what its rate allows after headers."""
    from testbed.live.iperf import HEADER_LIMIT, goodput_bps

    first, second, *_ = network.topology.hosts
    [achieved_bps] = goodput_bps(network, nursery, [(first, second)], folder.logs)
    return round(achieved_bps / (network.ports[0].port.rate_bps * HEADER_LIMIT), 4)


def play(
    run: Run,
    network: Network,
    nursery: Nursery,
    folder: RunFolder,
    on_time: Callable[[int], None],
    rooms: Mapping[str, Room],
) -> tuple[dict[str, float | None], list[str], dict[str, str]]:
    """Lead the tasks of a run through it; returns what they noticed, who was lost, and states."""
    schedule = schedule_of(run.experiment, run.seed)
    stage = Stage(run, network, nursery, folder, rooms)
    hosts = stage.start_hosts()
    daemons = stage.start_cluster()
    workers = [*stage.start_stacks(), *hosts, *daemons, *stage.start_master()]
    generators = stage.start_generators(schedule) if len(schedule.flow) else []
    sampler = stage.start_sampler()
    agents = stage.start_agent()
    crew = Crew(nursery, [*workers, *generators, sampler, *agents], stage.start_stack_rank)

    crew.await_all("listening", workers)
    on_time(0)
    connect_ns = on_grid(network.wiring, ahead_ns=0)
    for worker in workers:
        worker.tell(connect_ns=connect_ns)
    crew.await_all("ready")
    on_time(0)
    stage.mark_workers()
    crew.tell(epoch_ns=on_grid(network.wiring, START_AHEAD_NS), pids=stage.pids())
    may_die = hosts if run.experiment.on_failure == "continue" else []
    beat_s = stage.beat_ns / 1e9
    crew.await_all(
        "done",
        on_time=on_time,
        may_die=may_die,
        may_be_killed=daemons,
        wait_s=LOOK_S if stage.beat_ns == BEAT_REAL_NS else beat_s,
        hang_limit_s=max(HANG_LIMIT_S, beat_s + LOOK_S),
    )
    stage.check_workers()
    crew.dismiss()
    here = [task for task in (*workers, *crew.begun) if "done" in task.said]
    found = noticed(here, generators, sampler) | noticed_jobs(here, agents)
    return found, crew.lost, states(crew.begun)


def on_grid(wiring: Wiring, ahead_ns: int) -> int:
    """An instant soon: on an exact clock, at a full step of a grid.

    There, the few nanoseconds that one import more or less takes must not shift a run against the
    microseconds and ticks in which the kernel measures: TCP would make more of it.
    """
    soon_ns = time.monotonic_ns() + ahead_ns
    if wiring.timer_slack_ns:
        return soon_ns
    return -(-soon_ns // START_GRID_NS) * START_GRID_NS


def noticed(workers: list[Task], generators: list[Task], sampler: Task) -> dict[str, float | None]:
    """What the tasks noticed about the machine, in experiment time."""
    sleep_p50, sleep_p99 = percentiles(workers, "sleep_late_ns")
    flow_p50, flow_p99 = percentiles(generators, "flow_late_ns")
    machine = sampler.said["done"]
    return {
        "sleep_late_p50_ns": sleep_p50,
        "sleep_late_p99_ns": sleep_p99,
        "flow_late_p50_ns": flow_p50,
        "flow_late_p99_ns": flow_p99,
        **{key: round(value, 4) for key, value in machine.items() if key.startswith("cpu_")},
        **{key: machine[key] for key in ("drops", "capture_lost") if key in machine},
    }


def noticed_jobs(workers: list[Task], agents: list[Task]) -> dict[str, float | None]:
    """What only runs with many jobs, a cluster, or a policy that acts, have to say."""
    said = [task.said["done"] for task in workers if "tasks" in task.said["done"]]
    found: dict[str, float | None] = {}
    if said:
        found["task_memory_byte"] = max(done["memory_byte"] / done["tasks"] for done in said)
    if kept := [done["checkpoints"] for done in said if "checkpoints" in done]:
        found["checkpoints_left"] = sum(map(len, kept))  # on daemons' hosts
    if agents:
        found["policy_changes"] = sum(task.said["done"]["changes"] for task in agents)
    return found


def states(ranks: list[Task]) -> dict[str, str]:
    """Of a cluster's real training that was done, job by job."""
    said = [task.said["done"] for task in ranks if "done" in task.said]
    return {done["job"]: done["state"] for done in said if done["state"] is not None}


def percentiles(tasks: list[Task], key: str) -> tuple[float | None, float | None]:
    """p50 and p99 over all tasks, from the percentiles that each reported."""
    values = [value for task in tasks for value in task.said["done"][key]]
    if not values:
        return None, None
    p50, p99 = np.percentile(values, [50, 99])
    return float(p50), float(p99)
