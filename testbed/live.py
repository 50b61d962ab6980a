"""One run on a live network: start the tasks, let them play, collect what they saw.

The realtime engine calls this on the machine's own kernel; time may be dilated. What a policy, a
profile or a schedule means is not decided here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.base import tos_of
from testbed.crew import Crew
from testbed.folder import Row, RunFolder
from testbed.network import Network
from testbed.processes import Nursery, Task
from testbed.rtnetlink import device_indexes
from testbed.spec import Experiment, PolicyChoice, TrainingJob
from workloads.schedule import Schedule, schedule_of

FIRST_FLOW_PORT = 6000  # one for each ToS
FIRST_JOB_PORT = 7000  # two for each job: ring, coordinator
START_AHEAD_NS = 200_000_000  # from `go` to time zero, so that everyone has heard it
SAMPLES = 100  # of counters, over a run
SHORTEST_SAMPLE_NS = 20_000_000


@dataclass(frozen=True)
class Run:
    """One policy and one seed of an experiment."""

    experiment: Experiment
    choice: PolicyChoice
    seed: int
    run_id: str

    @property
    def bands(self) -> dict[str, str]:
        return self.experiment.bands(self.choice)


@dataclass(frozen=True)
class Played:
    """What a run left: its tables, and what was measured about the machine meanwhile."""

    tables: dict[str, list[Row]]
    measured: dict[str, float | None]


def play(
    run: Run,
    network: Network,
    nursery: Nursery,
    folder: RunFolder,
    on_time: Callable[[int], None],
) -> Played:
    """Play a run on a network that is up. `on_time` hears how far it is, in experiment time."""
    schedule = schedule_of(run.experiment, run.seed)
    stage = Stage(run, network, nursery, folder)
    workers = [
        task
        for index, job in enumerate(run.experiment.training)
        for task in stage.start_workers(index, job)
    ]
    generators = stage.start_generators(schedule) if len(schedule.flow) else []
    sampler = stage.start_sampler()
    crew = Crew(nursery, [*workers, *generators, sampler])

    crew.await_all("listening", workers)
    for worker in workers:
        worker.tell(connect=True)
    crew.await_all("ready")
    crew.tell(epoch_ns=time.monotonic_ns() + START_AHEAD_NS, pids=stage.pids())
    crew.await_all("done", on_time=on_time)
    crew.dismiss()

    found = folder.read_journals()
    tables = {name: found.get(name, []) for name in ("iterations", "computes", "transfers")}
    tables |= {name: found.get(name, []) for name in ("links", "hosts")}
    tables["flows"] = flow_rows(run, schedule, found)
    return Played(tables, measured(workers, generators, sampler))


class Stage:
    """Starts the tasks of a run in their hosts' namespaces."""

    def __init__(self, run: Run, network: Network, nursery: Nursery, folder: RunFolder) -> None:
        self._run = run
        self._network = network
        self._nursery = nursery
        self._folder = folder
        self._on_host: dict[str, list[Task]] = {host: [] for host in network.topology.hosts}
        self._policy = run.choice.link_policy

    def start_workers(self, index: int, job: TrainingJob) -> list[Task]:
        band = self._run.bands[job.name]
        layers = [
            (layer.bytes, layer.forward_ns, layer.backward_ns)
            for layer in job.scaled_profile.layers
        ]
        tasks = []
        for rank, host in enumerate(job.host_names):
            config = {
                "job": job.name,
                "rank": rank,
                "addresses": [self._network.address(name) for name in job.host_names],
                "port": FIRST_JOB_PORT + 2 * index,
                "tos": tos_of(band),
                "priority": self._policy.bands.index(band),
                "layers": layers,
                "fusion_byte": job.fusion_byte,
                "order": job.order,
                "barrier": job.barrier,
                "check": job.check,
            }
            tasks.append(self._start("workloads.worker:main", f"{job.name}-{host}", host, config))
        return tasks

    def start_generators(self, schedule: Schedule) -> list[Task]:
        hosts = self._network.topology.hosts
        mix_tos = [tos_of(self._run.bands[mix.name]) for mix in self._run.experiment.flows]
        doors = {str(tos): FIRST_FLOW_PORT + at for at, tos in enumerate(sorted(set(mix_tos)))}
        flows: list[list[tuple[int, int, str, int, int]]] = [[] for _ in hosts]
        for at in range(len(schedule.flow)):
            flows[int(schedule.src[at])].append(
                (
                    int(schedule.flow[at]),
                    int(schedule.start_ns[at]),
                    self._network.address(hosts[schedule.dst[at]]),
                    int(schedule.size_byte[at]),
                    mix_tos[schedule.mix[at]],
                )
            )
        return [
            self._start(
                "workloads.generator:main",
                f"flows-{host}",
                host,
                {"address": self._network.address(host), "doors": doors, "flows": flows[at]},
            )
            for at, host in enumerate(hosts)
        ]

    def start_sampler(self) -> Task:
        nodes = []
        for node, ports in self._network.ports_by_node().items():
            pid = self._network.pid(node)
            indexes = device_indexes(pid)
            nodes.append(
                (
                    pid,
                    [
                        (
                            live.link,
                            indexes[live.port.device],
                            [(queue.band, queue.class_id) for queue in live.queues],
                        )
                        for live in ports
                    ],
                )
            )
        period_ns = max(SHORTEST_SAMPLE_NS, self._run.experiment.duration_ns // SAMPLES)
        return self._start(
            "testbed.sampler:main", "sampler", None, {"nodes": nodes, "period_ns": period_ns}
        )

    def pids(self) -> dict[str, list[int | None]]:
        return {host: [task.pid for task in tasks] for host, tasks in self._on_host.items()}

    def _start(self, target: str, name: str, host: str | None, config: dict[str, Any]) -> Task:
        common = {
            "dilation": self._network.wiring.dilation,
            "duration_ns": self._run.experiment.duration_ns,
            "journal": str(self._folder.journals / f"{name}.jsonl"),
        }
        task = self._nursery.start(
            target,
            config | common,
            name=name,
            log=self._folder.logs / f"{name}.log",
            netns_pid=None if host is None else self._network.pid(host),
        )
        if host is not None:
            self._on_host[host].append(task)
        return task


def flow_rows(run: Run, schedule: Schedule, found: dict[str, list[Row]]) -> list[Row]:
    """One row a scheduled flow, finished or not, in the order of the schedule."""
    started = dict(map(tuple, found.get("start", [])))
    ended = dict(map(tuple, found.get("end", [])))
    hosts = run.experiment.host_names
    mixes = [
        (mix.name, run.choice.link_policy.bands.index(run.bands[mix.name]))
        for mix in run.experiment.flows
    ]
    rows = []
    for at, flow in enumerate(schedule.flow.tolist()):
        mix, priority = mixes[schedule.mix[at]]
        rows.append(
            [
                flow,
                mix,
                hosts[schedule.src[at]],
                hosts[schedule.dst[at]],
                int(schedule.size_byte[at]),
                priority,
                int(schedule.start_ns[at]),
                started.get(flow),
                ended.get(flow),
            ]
        )
    return rows


def measured(workers: list[Task], generators: list[Task], sampler: Task) -> dict[str, float | None]:
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
        "drops": machine["drops"],
    }


def percentiles(tasks: list[Task], key: str) -> tuple[float | None, float | None]:
    """p50 and p99 over all tasks, from the percentiles that each reported."""
    values = [value for task in tasks for value in task.said["done"][key]]
    if not values:
        return None, None
    p50, p99 = np.percentile(values, [50, 99])
    return float(p50), float(p99)
