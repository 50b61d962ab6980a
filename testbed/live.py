"""One run on a live network: build it, start the tasks, let them play, take it down.

The realtime engine does this on the machine's own kernel, where time may be dilated; the virtual
engine inside a kernel whose clock is virtual. What a policy, a profile or a schedule means is not
decided here.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.base import tos_of
from testbed import names
from testbed.crew import Crew
from testbed.engine import Performance, Run, Setting, Wiring
from testbed.errors import RunFailed
from testbed.folder import RunFolder
from testbed.marking import mark
from testbed.network import Network
from testbed.processes import Nursery, Task
from testbed.psjobs import TARGET, host_configs, servers_by_host
from testbed.room import Room
from testbed.rtnetlink import device_indexes
from testbed.spec import TrainingJob
from testbed.spechosts import DOCKER
from testbed.stacks import STACKS, image_of, preload
from workloads.board import Board
from workloads.jobports import FIRST_FLOW_PORT, job_port
from workloads.ports import flow_source, worker_source
from workloads.schedule import Schedule, schedule_of

if TYPE_CHECKING:
    from testbed.containers import Containers

START_AHEAD_NS = 200_000_000  # from `go` to time zero, so that everyone has heard it
START_GRID_NS = 1_000_000_000
SAMPLES = 100  # of counters, over a run
SHORTEST_SAMPLE_NS = 20_000_000


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
    names.write(folder.journals, setting.topology.hosts)
    with (
        containers_of(run, folder) as containers,
        Network(
            setting.topology,
            policy,
            setting.wiring,
            run_id=run.run_id,
            containers=containers.pids if containers else None,
            servers=servers_by_host(run.experiment),
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
            measured, lost = play(run, network, nursery, folder, on_time, rooms)
    return Performance(description, {"shaped_rate_ratio": ratio, **measured}, lost=lost)


def containers_of(run: Run, folder: RunFolder) -> AbstractContextManager["Containers | None"]:
    """The containers that are this run's hosts, if they are to be containers."""
    if run.experiment.hosts != DOCKER:
        return nullcontext()
    from testbed.containers import Containers

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
        "tcp": network.wiring.tcp,
        "offload": network.wiring.offload,
        "delay_asked_ns": delay.ns,
        "delay_strict": delay.strict,
        "netem": network.wiring.netem,
        "idle_rtt_ns": network.idle_rtt_ns(first, second),
        "ports": [
            {"link": link, "asked_bps": asked, "read_bps": read}
            for link, asked, read in network.asked_and_read_bps()
        ],
    }


def shaped_rate_ratio(network: Network, nursery: Nursery, folder: RunFolder) -> float:
    """What one link carries, over what its rate allows after headers."""
    from testbed.iperf import HEADER_LIMIT, goodput_bps

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
) -> tuple[dict[str, float | None], list[str]]:
    """Lead the tasks of a run through it; returns what they noticed, and who was lost."""
    schedule = schedule_of(run.experiment, run.seed)
    stage = Stage(run, network, nursery, folder, rooms)
    workers = [
        task
        for index, job in enumerate(run.experiment.training)
        if not job.has_servers
        for task in stage.start_workers(index, job)
    ]
    many = stage.start_server_jobs()
    workers += many
    generators = stage.start_generators(schedule) if len(schedule.flow) else []
    sampler = stage.start_sampler()
    agents = stage.start_agent()
    crew = Crew(nursery, [*workers, *generators, sampler, *agents])

    crew.await_all("listening", workers)
    on_time(0)
    connect_ns = on_grid(network.wiring, ahead_ns=0)
    for worker in workers:
        worker.tell(connect_ns=connect_ns)
    crew.await_all("ready")
    on_time(0)
    stage.mark_workers()
    crew.tell(epoch_ns=on_grid(network.wiring, START_AHEAD_NS), pids=stage.pids())
    may_die = many if run.experiment.on_failure == "continue" else []
    crew.await_all("done", on_time=on_time, may_die=may_die)
    stage.check_workers()
    crew.dismiss()
    here = [task for task in workers if "done" in task.said]
    found = noticed(here, generators, sampler) | noticed_jobs(here, agents)
    return found, crew.lost


def on_grid(wiring: Wiring, ahead_ns: int) -> int:
    """An instant soon: on an exact clock, at a full step of a grid.

    There, the few nanoseconds that one import more or less takes must not shift a run against the
    microseconds and ticks in which the kernel measures: TCP would make more of it.
    """
    soon_ns = time.monotonic_ns() + ahead_ns
    if wiring.timer_slack_ns:
        return soon_ns
    return -(-soon_ns // START_GRID_NS) * START_GRID_NS


class Stage:
    """Starts the tasks of a run in their hosts: namespaces, or the rooms that containers are."""

    def __init__(
        self,
        run: Run,
        network: Network,
        nursery: Nursery,
        folder: RunFolder,
        rooms: Mapping[str, Room],
    ) -> None:
        self._rooms = rooms
        self._run = run
        self._network = network
        self._nursery = nursery
        self._folder = folder
        self._on_host: dict[str, list[Task]] = {host: [] for host in network.topology.hosts}
        self._policy = run.choice.link_policy
        self._workers: dict[str, list[Task]] = {}
        self._boards: dict[str, Path] = {}

    def start_workers(self, index: int, job: TrainingJob) -> list[Task]:
        band = self._run.bands[job.name]
        layers = [
            (layer.bytes, layer.forward_ns, layer.backward_ns)
            for layer in job.scaled_profile.layers
        ]
        tasks = []
        for rank, host in enumerate(job.host_names):
            config: dict[str, Any] = {
                "job": job.name,
                "rank": rank,
                "addresses": [self._network.address(name) for name in job.host_names],
                "port": job_port(index),
                "priority": self._policy.bands.index(band),
                "layers": layers,
                "fusion_byte": job.fusion_byte,
                "check": job.check,
            }
            if job.backend == "native":
                config |= {"tos": tos_of(band), "order": job.order, "barrier": job.barrier}
                if self._network.topology.routed:
                    config["source_port"] = worker_source(self._run.seed, job.name, rank)
                config |= {"start_ns": job.start_ns, "steps": job.steps}
            else:
                config |= {"device": self._network.device(host)}
            if self._run.steers(job.name):
                config["steered_by"] = self._policy.name
            target = f"{STACKS[job.backend].module}:main"
            tasks.append(self._start(target, f"{job.name}-{host}", host, config))
        self._workers[job.name] = tasks
        return tasks

    def start_server_jobs(self) -> list[Task]:
        """One process a host for all servers and workers of parameter-server jobs."""
        tasks = []
        network = self._network
        configs = host_configs(self._run, network.address, routed=network.topology.routed)
        for host, config in configs.items():
            if self._policy.watches and len(config["servers"]) > 1:
                config |= {
                    "board": self._inside(host, self._board(host, len(config["servers"]))),
                    "publish_ns": self._policy.period_ns,
                }
            tasks.append(self._start(TARGET, f"jobs-{host}", host, config))
        return tasks

    def start_agent(self) -> list[Task]:
        """The task that acts for the policy while the run goes on, if there is anything to do."""
        ports = [
            (self._network.pid(live.node), str(self._boards.get(live.node, "")), asdict(live.port))
            for live in self._network.ports
            if len(live.port.servers) > 1  # a server alone at its host has no order
        ]
        if self._policy.act is None or not ports:
            return []
        config = {
            "policy": self._policy.name,
            "period_ns": self._policy.period_ns,
            "ports": ports,
        }
        return [self._start("testbed.agent:main", "agent", None, config)]

    def _board(self, host: str, places: int) -> Path:
        path = self._folder.journals / f"{host}.board"
        Board.create(path, places)
        if host in self._rooms:
            path.chmod(
                0o666
            )  # a container's user writes it, and the folder is that user's meanwhile
        self._boards[host] = path
        return path

    def _inside(self, host: str, path: Path) -> str:
        room = self._rooms.get(host)
        return str(path) if room is None else room.inside(path)

    def mark_workers(self) -> None:
        """Put the jobs that do not mark themselves into their bands: every connection stands."""
        for job in self._run.experiment.training:
            if job.backend == "native":
                continue
            for task in self._workers[job.name]:
                assert task.pid is not None, "a worker that is ready has said hello"
                mark(task.pid, tos_of(self._run.bands[job.name]))

    def check_workers(self) -> None:
        """In test mode: all workers of a job hold the same weights, bit by bit."""
        for job, tasks in self._workers.items():
            found = [task.said["done"].get("digests", {}) for task in tasks]
            for iteration in set.intersection(*map(set, found)):
                if len({digests[iteration] for digests in found}) > 1:
                    raise RunFailed(
                        f"{job}: after {iteration} steps its workers hold different weights"
                    )

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
                {
                    "address": self._network.address(host),
                    "doors": doors,
                    "flows": flows[at],
                    **self._sources(host, len(flows[at])),
                },
            )
            for at, host in enumerate(hosts)
        ]

    def _sources(self, host: str, flows: int) -> dict[str, list[int]]:
        if not self._network.topology.routed:
            return {}
        seed = self._run.seed
        return {"source_ports": [flow_source(seed, host, at) for at in range(flows)]}

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
        room = self._rooms.get(host) if host is not None else None
        journal = self._folder.journals / f"{name}.jsonl"
        common = {
            "dilation": self._network.wiring.dilation,
            "duration_ns": self._run.experiment.duration_ns,
            "journal": str(journal) if room is None else room.inside(journal),
        }
        task = self._nursery.start(
            target,
            config | common,
            name=name,
            log=self._folder.logs / f"{name}.log",
            netns_pid=None if host is None else self._network.pid(host),
            room=room,
        )
        if host is not None:
            self._on_host[host].append(task)
        return task


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
        "drops": machine["drops"],
    }


def noticed_jobs(workers: list[Task], agents: list[Task]) -> dict[str, float | None]:
    """What only runs with parameter servers, or with a policy that acts, have to say."""
    said = [task.said["done"] for task in workers if "tasks" in task.said["done"]]
    found: dict[str, float | None] = {}
    if said:
        found["task_memory_byte"] = max(done["memory_byte"] / done["tasks"] for done in said)
    if agents:
        found["policy_changes"] = sum(task.said["done"]["changes"] for task in agents)
    return found


def percentiles(tasks: list[Task], key: str) -> tuple[float | None, float | None]:
    """p50 and p99 over all tasks, from the percentiles that each reported."""
    values = [value for task in tasks for value in task.said["done"][key]]
    if not values:
        return None, None
    p50, p99 = np.percentile(values, [50, 99])
    return float(p50), float(p99)
