"""What a policy's agent does on a live network: jobs that share a port get their levels there.

A policy that orders jobs by their servers gives streams a level at their first link, what servers
send and what workers push, or at their last one, what is pushed into a host that holds servers. It
may change them during the run. One that orders jobs at every port gives all streams of a job one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policies.link import Port, ServerPort, Situation
from policies.link.policy import ANY_PORT
from testbed.engine import Run
from testbed.fluid.disciplines import port_of
from testbed.fluid.simulation import Simulation
from testbed.fluid.world import SimulatedJob
from testbed.spec.policy import server_map


@dataclass(frozen=True)
class ToldApart:
    """The streams of a rank that a port tells apart by their server."""

    server: ServerPort
    job: SimulatedJob
    streams: tuple[int, ...]
    pushes: bool  # else what the server sends
    into: bool  # the port is their last link, else their first


class JobOrder:
    def __init__(self, run: Run, simulation: Simulation, jobs: list[SimulatedJob]) -> None:
        self._policy = run.choice.link_policy
        self._simulation = simulation
        self._period_ns = self._policy.period_ns
        self._everywhere = OrderEverywhere(run, simulation, jobs)
        if self._everywhere.applies:
            self._everywhere.turn()
            return
        self._levels: dict[ToldApart, int] = {}  # as last told
        self._places = [
            (port, list(streams_at(port, far, run.experiment.host_names, jobs)))
            for port, far in ports_with_servers(run)
            if any(one.by_server for one in self._policy.discipline_at(port).classes)
        ]
        if self._places or self._period_ns:
            simulation.at(0, self._turn)

    def _turn(self) -> None:
        now_ns = self._simulation.now_ns
        for port, parts in self._places:
            remaining = self._remaining_byte(parts) if self._policy.watches else {}
            discipline = self._policy.discipline_at(port, Situation(now_ns, remaining))
            for part in parts:
                find = discipline.class_of_pushes if part.pushes else discipline.class_of
                one = find(part.server)
                level = part.job.plan.priority if one is None else one.level
                if self._levels.get(part) == level:
                    continue
                self._levels[part] = level
                change = (
                    self._simulation.change_last_level
                    if part.into
                    else self._simulation.change_first_level
                )
                for stream in part.streams:
                    change(stream, level)
        if self._period_ns:
            self._simulation.at((now_ns // self._period_ns + 1) * self._period_ns, self._turn)

    def _remaining_byte(self, parts: list[ToldApart]) -> dict[str, int]:
        return {
            part.job.plan.name: round(self._simulation.unsent_byte(part.streams))
            for part in parts
            if not part.pushes
        }


class OrderEverywhere:
    """For a policy that tells jobs apart wherever they are."""

    def __init__(self, run: Run, simulation: Simulation, jobs: list[SimulatedJob]) -> None:
        self._policy = run.choice.link_policy
        self._simulation = simulation
        self._known = server_map(run.experiment.training).jobs
        self._jobs = jobs
        self._port = replace(ANY_PORT, jobs=self._known)
        self._levels: dict[str, int] = {}  # as last told
        # What servers send; that others pass it on is theirs.
        self._broadcasts = {
            job.plan.name: [
                stream for (a, _), stream in job.streams.data.items() if job.plan.serves(a)
            ]
            for job in jobs
        }

    @property
    def applies(self) -> bool:
        return any(one.by_server for one in self._policy.discipline_at(self._port).classes)

    def turn(self) -> None:
        now_ns = self._simulation.now_ns
        discipline = self._policy.discipline_at(self._port, self._situation(now_ns))
        for job, server in zip(self._jobs, self._known, strict=True):
            one = discipline.class_of(server)
            if one is None or self._levels.get(server.job) == one.level:
                continue
            self._levels[server.job] = one.level
            for stream in job.streams.data.values():
                self._simulation.change_levels(stream, one.level)
        period_ns = self._policy.period_ns
        if period_ns:
            self._simulation.at((now_ns // period_ns + 1) * period_ns, self.turn)

    def _situation(self, now_ns: int) -> Situation:
        if not self._policy.watches:
            return Situation(now_ns)
        left = {
            job: round(self._simulation.unsent_byte(streams))
            for job, streams in self._broadcasts.items()
        }
        return Situation(now_ns, everywhere_byte=left)


def ports_with_servers(run: Run) -> list[tuple[Port, str]]:
    """The ports that know of servers, each under the name of its near node, and its far one."""
    servers = server_map(run.experiment.training)
    found = []
    for link in run.experiment.topology.graph.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            told = servers.at(near, far)
            if told["servers"] or told["pushed_to"]:
                found.append((replace(port_of(link.cable), device=near, **told), far))
    return found


def streams_at(
    port: Port, far: str, host_names: tuple[str, ...], jobs: list[SimulatedJob]
) -> Iterator[ToldApart]:
    """Everything at a port that a discipline may tell apart, rank by rank."""
    into = far in host_names
    host = host_names.index(far if into else port.device)
    server_of = {server.job: server for server in (*port.servers, *port.pushed_to)}
    for job in jobs:
        plan = job.plan
        for rank in (rank for rank in range(plan.ranks) if job.streams.hosts[rank] == host):
            serves = plan.serves(rank)
            if not plan.has_servers or (into and not serves):
                continue
            ends = [(a, b) for a, b in job.streams.data if (b if into else a) == rank]
            streams = tuple(job.streams.data[pair] for pair in ends)
            yield ToldApart(server_of[plan.name], job, streams, into or not serves, into)
