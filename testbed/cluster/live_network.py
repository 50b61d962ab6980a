"""A live cluster's network as its master sees it: who is in which rack, and which links bytes use.

Where there are several ways, a kernel's hash of addresses and ports decides. Source ports follow
from the seed, a job, its placement and a rank, as those of other jobs do (workloads/ports.py): so a
job's connections take the same ways under every policy. Which, only the kernel knows: to its
master, what goes between two hosts is spread evenly over all ways that are equally short.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from testbed.cluster.player import Surroundings
from topologies.plain import Plain, from_plain
from topologies.routes import Routes
from workloads.busy_job import BusyJob
from workloads.ports import worker_source


class LiveNetwork:
    def __init__(self, graph: Plain, seed: int, jobs: Sequence[BusyJob]) -> None:
        self._graph = from_plain(graph)
        self._seed, self._jobs, self._switches = seed, jobs, set(self._graph.switches)
        self._known: dict[tuple[int, int], dict[str, float]] = {}

    @property
    def routed(self) -> bool:
        return self._graph.routed

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self._graph)

    def around(self, bands: Sequence[str], band: str, *, steered: bool) -> Surroundings:
        racks = {host: at for at, rack in enumerate(self._graph.racks) for host in rack}
        rates = [link.cable.rate_bps for link in self._graph.links for _ in range(2)]
        return Surroundings(
            tuple(bands),
            band,
            steered=steered,
            rack=tuple(racks[host] for host in self._graph.hosts),
            loads=self.loads,
            link_bps=dict(zip(self._graph.link_names, rates, strict=True)),
        )

    def sources(self, job: int, epoch: int) -> list[int] | None:
        """The ports that a placement's ranks connect from; None: there is one way anyway."""
        if not self.routed:
            return None
        one = self._jobs[job]
        assert one.work is not None
        ranks = range(one.work.workers + one.work.servers)
        return [worker_source(self._seed, f"{one.name} {epoch}", rank) for rank in ranks]

    def fetch_source(self, job: int, number: int, target: int) -> int | None:
        """That of a checkpoint's connection."""
        if not self.routed:
            return None
        name = f"{self._jobs[job].name} checkpoint {number}"
        return worker_source(self._seed, name, target)

    def loads(self, job: int, hosts: tuple[int, ...]) -> Mapping[str, int]:
        """Bytes of an iteration on each link, as far as can be known."""
        work, found = self._jobs[job].work, defaultdict[str, float](float)
        for source, target, byte in work.far(hosts) if work is not None else ():
            for link, share in self._shares(source, target).items():
                found[link] += byte * share
        return {link: round(byte) for link, byte in found.items()}

    def _shares(self, source: int, target: int) -> Mapping[str, float]:
        """Of what goes from one host to another, the part that passes each link."""
        if (source, target) not in self._known:
            name = self._graph.hosts[source]
            self._known[source, target] = found = defaultdict[str, float](float)
            at = {name: 1.0}
            while at:
                reached = defaultdict[str, float](float)
                for node, part in at.items():
                    links = self._next(node, self._graph.hosts[target])
                    for link in links:
                        found[link] += part / len(links)
                        reached[link.partition("->")[2]] += part / len(links)
                at = {node: part for node, part in reached.items() if node in self._switches}
        return self._known[source, target]

    def _next(self, node: str, host: str) -> Sequence[str]:
        if node in self._switches:
            return self._routes.next_hops(node, host)
        return [link for link in self._graph.link_names if link.startswith(f"{node}->")]
