"""Starts the tasks of a live run in their hosts, and knows which runs where."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from basics.bands import tos_of
from basics.errors import RunFailed
from testbed.containers.view import Room
from testbed.engine import Run, capture_file
from testbed.live import cluster_configs as cluster
from testbed.live.host_configs import TARGET, HostConfigs
from testbed.live.network import LivePort, Network
from testbed.live.rtnetlink import device_indexes
from testbed.processes import Nursery, Task
from testbed.run_folder import RunFolder
from testbed.spec import FlowMix, TrainingJob
from testbed.spec.policy import server_map
from testbed.stacks import STACKS
from workloads.board import Board
from workloads.jobports import FIRST_FLOW_PORT, job_port
from workloads.marking import mark
from workloads.ports import flow_source
from workloads.schedule import Schedule
from workloads.task import BEAT_REAL_NS, RARE_BEAT_NS, RARE_BEATS

SAMPLES = 100  # of counters, over a run
SHORTEST_SAMPLE_NS = 20_000_000


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
        patient = run.experiment.cluster is not None and not network.wiring.timer_slack_ns
        rare_ns = max(RARE_BEAT_NS, run.experiment.duration_ns // RARE_BEATS)
        self.beat_ns = rare_ns if patient else BEAT_REAL_NS

    def start_stacks(self) -> list[Task]:
        """A process for every worker of a real training stack."""
        return [
            task
            for index, job in enumerate(self._run.experiment.training)
            if job.backend != "native"
            for task in self._start_stack(index, job)
        ]

    def _start_stack(self, index: int, job: TrainingJob) -> list[Task]:
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
                "device": self._network.device(host),
            }
            transfer = self._run.choice.transfer or job.transfer
            if job.backend == "torch" and transfer is not None:
                config["transfer"] = transfer.transfer_policy.plain()
                config["rate_bps"] = self._run.experiment.topology.rate_bps
                config["seed"] = self._run.seed
            if self._run.steers(job.name):
                config["steered_by"] = self._policy.plain()
            target = f"{STACKS[job.backend].module}:main"
            tasks.append(self._start(target, f"{job.name}-{host}", host, config))
        self._workers[job.name] = tasks
        return tasks

    def start_hosts(self) -> list[Task]:
        """One process a host for all ranks that are Giveway's own."""
        tasks = []
        network = self._network
        configs = HostConfigs(self._run, network.address, routed=network.topology.routed).made()
        held = server_map(self._run.experiment.training).held
        ordered = {live.node for live in self._ordered_ports()} & held.keys()
        for host, config in configs.items():
            if self._policy.watches and host in ordered:
                config |= {
                    "board": self._inside(host, self._board(host, len(held[host]))),
                    "publish_ns": self._policy.period_ns,
                }
            tasks.append(self._start(TARGET, f"jobs-{host}", host, config))
        return tasks

    def start_cluster(self) -> list[Task]:
        """A daemon on every host."""
        if self._run.experiment.cluster is None:
            return []
        run, address, hosts = self._run, self._network.address, self._network.topology.hosts
        beat = {"beat_ns": self.beat_ns}
        config = partial(cluster.daemon_config, run)
        return [
            self._start(cluster.DAEMON, f"daemon-{host}", host, config(host, address(host)) | beat)
            for host in hosts
        ]

    def start_master(self) -> list[Task]:
        """The master of all daemons, on the first host."""
        if self._run.experiment.cluster is None:
            return []
        config = cluster.master_config(self._run, self._network.address)
        config |= {"beat_ns": self.beat_ns}
        return [self._start(cluster.MASTER, "master", self._network.topology.hosts[0], config)]

    def start_stack_rank(self, message: dict[str, Any]) -> Task:
        """A process of a cluster's real training job, for the daemon of its host."""
        host = message["host"]
        config = message["config"] | {"device": self._network.device(host)}
        return self._start(cluster.STACK_RANK, message["name"], host, config)

    def start_agent(self) -> list[Task]:
        """The task that acts for the policy while the run goes on, if there is anything to do."""
        ports = [
            (self._network.pid(live.node), str(self._boards.get(live.node, "")), asdict(live.port))
            for live in self._ordered_ports()
        ]
        if not self._policy.acts or not ports:
            return []
        config = {"policy": self._policy.plain(), "ports": ports}
        return [self._start("testbed.live.policy_agent:main", "agent", None, config)]

    def _ordered_ports(self) -> list[LivePort]:
        """Where the policy tells packets apart by their servers."""
        return [
            live
            for live in self._network.ports
            if any(one.by_server for one in self._policy.discipline_at(live.port).classes)
        ]

    def _board(self, host: str, places: int) -> Path:
        path = self._folder.journals / f"{host}.board"
        Board.create(path, places)
        if host in self._rooms:
            # A container's user writes it, and the folder is that user's meanwhile.
            path.chmod(0o666)
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
        marks = [self._marks(mix) for mix in self._run.experiment.flows]
        first = sorted({mix_marks[0][1] for mix_marks in marks})
        doors = {str(tos): FIRST_FLOW_PORT + at for at, tos in enumerate(first)}
        flows: list[list[tuple[int, int, str, int, int]]] = [[] for _ in hosts]
        for at in range(len(schedule.flow)):
            flows[int(schedule.src[at])].append(
                (
                    int(schedule.flow[at]),
                    int(schedule.start_ns[at]),
                    self._network.address(hosts[schedule.dst[at]]),
                    int(schedule.size_byte[at]),
                    int(schedule.mix[at]),
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
                    "marks": marks,
                    "sample_ns": self._run.experiment.sample_ns,
                    **self._sources(host, len(flows[at])),
                },
            )
            for at, host in enumerate(hosts)
        ]

    def _marks(self, mix: FlowMix) -> list[tuple[int, int]]:
        """After how many bytes a flow of a mix carries which ToS."""
        later = [(one.after_byte, tos_of(one.to)) for one in self._run.senders_demotions(mix)]
        return [(0, tos_of(self._run.bands[mix.name])), *later]

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
                            [(queue.name, queue.class_id) for queue in live.queues],
                        )
                        for live in ports
                    ],
                )
            )
        period_ns = max(SHORTEST_SAMPLE_NS, self._run.experiment.duration_ns // SAMPLES)
        return self._start(
            "testbed.live.sampler:main",
            "sampler",
            None,
            {
                "nodes": nodes,
                "period_ns": period_ns,
                "captures": self._captures(),
                **({} if self.beat_ns == BEAT_REAL_NS else {"beat_ns": self.beat_ns}),
            },
        )

    def _captures(self) -> list[dict[str, Any]]:
        """Where packets are captured: at the near end of each link that was named."""
        return [
            {
                "pid": self._network.pid(node),
                "device": live.port.device,
                "rate_bps": live.port.rate_bps,
                "file": str(self._folder.path / capture_file(live.link)),
            }
            for node, ports in self._network.ports_by_node().items()
            for live in ports
            if live.link in self._run.captures
        ]

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
