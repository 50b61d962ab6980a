"""Training jobs in a simulation: the same members as the live workers, without sockets."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from testbed.engine import Run
from testbed.fluid.simulation import Simulation, Way
from testbed.spec import TrainingJob
from workloads.jobports import job_port
from workloads.member import Member, Transfer


class Records:
    """What a run's members write, table by table, in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, list[list[Any]]] = defaultdict(list)

    def write(self, table: str, *values: str | float | None) -> None:
        self.tables[table].append(list(values))


class RingJob:
    """The connections of a job, in this order: the ring, to rank 0, from rank 0."""

    def __init__(self, run: Run, index: int, job: TrainingJob) -> None:
        self.job = job
        self.policy = run.choice.link_policy
        self.steering = self.policy.steering if run.steers(job.name) else None
        self.level = run.choice.link_policy.bands.index(run.bands[job.name])
        hosts = {name: number for number, name in enumerate(run.experiment.host_names)}
        self.hosts = [hosts[name] for name in job.host_names]
        self.port = job_port(index)

    def ways(self) -> list[Way]:
        hosts, port, level = self.hosts, self.port, self.level
        ring = [
            Way(host, hosts[(rank + 1) % len(hosts)], port, level)
            for rank, host in enumerate(hosts)
        ]
        if self.steering is not None:
            level = self.policy.bands.index(self.policy.flows)  # a few bytes, that all wait for
        inward = [Way(host, hosts[0], port + 1, level) for host in hosts[1:]]
        outward = [Way(hosts[0], host, port + 1, level) for host in hosts[1:]]
        return ring + inward + outward

    def join(self, simulation: Simulation, first: int, records: Records) -> list["RingMember"]:
        """Make the members; their connections are numbered from `first`."""
        count = len(self.hosts)
        ring = list(range(first, first + count))
        simulation.make_ring(ring)
        members: list[RingMember] = []
        layers = self.job.scaled_profile.layers
        for rank in range(count):
            member = RingMember(
                self.job.name,
                rank,
                count,
                layers,
                fusion_byte=self.job.fusion_byte,
                order=self.job.order,
                barrier=self.job.barrier,
                priority=self.level,
                journal=records,
                steering=self.steering,
                start_ns=self.job.start_ns,
                steps=self.job.steps,
            )
            member.bands = self.policy.bands
            members.append(member)
            member.join(simulation, ring[rank], members, first + count)
            simulation.on_ring_done[ring[rank]] = member.transfer_done
            simulation.at(self.job.start_ns, member.begin)
        return members


class RingMember(Member):
    bands: Sequence[str] = ()

    def join(
        self, simulation: Simulation, stream: int, members: list["RingMember"], star: int
    ) -> None:
        self._simulation = simulation
        self._stream = stream
        self._members = members
        self._inward = star + self.rank - 1
        self._outward = star + self.workers - 1

    def now_ns(self) -> int:
        return self._simulation.now_ns

    def at(self, time_ns: float, callback: Callable[[], None]) -> None:
        self._simulation.at(time_ns, callback)

    def tell_rank_0(self, layer: int) -> None:
        there_ns = self.now_ns() + self._simulation.message_delay_ns(self._inward)
        self.at(there_ns, partial(self._members[0].hear_ready, layer))

    def tell_others(self, layers: Sequence[int]) -> None:
        agreed = tuple(layers)
        for member in self._members[1:]:
            there = self._outward + member.rank - 1
            there_ns = self.now_ns() + self._simulation.message_delay_ns(there)
            self.at(there_ns, partial(member.hear_agreed, agreed))

    def send(self, transfer: Transfer) -> None:
        self._simulation.begin_ring(self._stream, transfer.byte / self.workers)

    def left_byte(self) -> int:
        return self._simulation.ring_left_byte(self._stream)

    def change_band(self, band: str) -> None:
        self.priority = self.bands.index(band)
        self._simulation.change_level(self._stream, self.priority)
