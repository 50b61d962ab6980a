"""What a policy's agent does on a live network: jobs that share a port get their levels there.

A policy that orders jobs by their servers gives streams a level at their first link, what servers
send and what workers push, or at their last one, what is pushed into a host that holds servers. It
may change them during the run. One that orders jobs at every port gives their streams one level.
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
        if order_everywhere(run, simulation, jobs):
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


def order_everywhere(run: Run, simulation: Simulation, jobs: list[SimulatedJob]) -> bool:
    """Whether the policy tells jobs apart wherever they are; if so, it is done."""
    known = server_map(run.experiment.training).jobs
    at_any_port = run.choice.link_policy.discipline_at(replace(ANY_PORT, jobs=known))
    if not any(one.by_server for one in at_any_port.classes):
        return False
    for job, server in zip(jobs, known, strict=True):
        one = at_any_port.class_of(server)
        if one is not None:
            for stream in job.streams.data.values():
                simulation.change_levels(stream, one.level)
    return True


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
            if not plan.has_servers or (into and rank < plan.workers):
                continue
            ends = [(a, b) for a, b in job.streams.data if (b if into else a) == rank]
            streams = tuple(job.streams.data[pair] for pair in ends)
            yield ToldApart(server_of[plan.name], job, streams, into or rank < plan.workers, into)
