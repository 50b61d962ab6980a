"""A topology made live: Mininet hosts and switches, every port shaped and read back.

The switch of a single rack is a bridge; several switches are routers.

`Network` is a context manager; whatever happens inside it, nothing is left behind.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

from basics.errors import RunFailed
from policies.link import LinkPolicy, Port
from policies.link.port import MTU_FRAME_BYTE, ServerMap, marking_ns
from testbed import processes
from testbed.engine import FAR_END, Wiring
from testbed.live import kernel_marks, routers, tc, transport
from testbed.live.batch_mininet import BatchMininet, BatchNode, ContainerHost
from testbed.live.routers import BatchRouter
from testbed.live.rtnetlink import Namespace, Qdisc, TrafficClass
from topologies import Cable, Topology

# A packet as the queues see it with offloads on: ten full frames up to 1 Gbit/s, and above as many
# as pass in the same 0.12 ms of experiment time, up to the kernel's own 44. At 1 Gbit/s those would
# make a short flow wait behind half a millisecond of one packet; on a fast link fewer would be a
# waste: packets and their timers, not bytes, are what the machine's processors are spent on.
LEAST_SEGMENTS, MOST_SEGMENTS = 10, 44
SEGMENTS_PER_BPS = LEAST_SEGMENTS / 1e9
RTO_MIN_MS = 200  # Linux's own; a dilated run has to stretch it
PINGS = 20


@dataclass(frozen=True)
class LivePort:
    """One direction of a cable: which node's interface feeds it, and its queues."""

    link: str  # "h1->s1"
    node: str
    port: Port
    queues: tuple[tc.KernelQueue, ...]


class Network:
    def __init__(
        self,
        topology: Topology,
        policy: LinkPolicy,
        wiring: Wiring,
        *,
        run_id: str,
        containers: Mapping[str, int] | None = None,  # the pid of each host that is one
        servers: ServerMap | None = None,
        marking: kernel_marks.Marking | None = None,
    ) -> None:
        self.topology = topology
        self.policy = policy
        self.wiring = wiring
        self.run_id = run_id
        self._containers = containers or {}
        self._servers = servers or ServerMap()
        self.marking = marking
        self.ports: list[LivePort] = []
        self._read_bps: dict[str, int] = {}
        self._net: BatchMininet | None = None

    def __enter__(self) -> Self:
        self._net = BatchMininet(self.run_id)
        try:
            self._plan(self._net)
            self._net.start()
            self._read_back()
            self._set_marks()
            self._find_no_way_out()
        except BaseException:
            self._net.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._net is not None:
            self._net.stop()
            self._net = None

    # What a run needs to know

    def pid(self, node: str) -> int:
        """The process whose namespaces are the node's."""
        return int(self._node(node).pid)

    def address(self, host: str) -> str:
        address: str = self._node(host).params["ip"].partition("/")[0]
        return address

    def device(self, host: str) -> str:
        """The host's own end of its cable."""
        return str(self._node(host).defaultIntf().name)

    def idle_rtt_ns(self, src: str, dst: str) -> int:
        """The median round trip of an idle network, in experiment time."""
        output = processes.run(
            ["ping", "-c", str(PINGS), "-i", "0.01", "-q", self.address(dst)],
            netns_pid=self.pid(src),
        )
        times = output.rpartition("=")[2].split()[0].split("/")  # min/avg/max/mdev
        return int(statistics.median(map(float, times[:2])) * 1e6 / self.wiring.dilation)

    def asked_and_read_bps(self) -> Iterator[tuple[str, int, int]]:
        """For each link: the rate asked for and the rate the kernel holds, in experiment time."""
        for live in self.ports:
            rate_bps = round(live.port.rate_bps * self.wiring.dilation)
            yield live.link, rate_bps, round(self._read_bps[live.link] * self.wiring.dilation)

    # Building

    def _node(self, name: str) -> BatchNode:
        assert self._net is not None, "the network is not up"
        node: BatchNode = self._net.nameToNode[name]
        return node

    def _plan(self, net: BatchMininet) -> None:
        """Tell Mininet the nodes and links, and every node what to run once they exist."""
        for host in self.topology.hosts:
            if host in self._containers:
                net.addHost(host, cls=ContainerHost, container_pid=self._containers[host])
            else:
                net.addHost(host)
        for switch in self.topology.switches:
            net.addSwitch(switch, cls=BatchRouter if self.topology.routed else None)
        for link in self.topology.links:
            made = net.addLink(self._node(link.a), self._node(link.b))
            for near, far in ((made.intf1, made.intf2), (made.intf2, made.intf1)):
                marks = near.node.name in self.topology.switches
                port = self._port(near.name, link.cable, marks)
                port = replace(port, **self._servers.at(near.node.name, far.node.name))
                discipline = self.policy.discipline_at(port)
                near.node.tc_batch += tc.commands(discipline, port)
                near.node.ip_batch.append(f"link set {near.name} {segments(port, self.wiring)}")
                self.ports.append(
                    LivePort(
                        f"{near.node.name}->{far.node.name}",
                        near.node.name,
                        port,
                        tuple(tc.queues(discipline, port)),
                    )
                )
        if self.topology.routed:
            routers.plan(net, self.topology)
        for host in net.hosts:
            host.ip_batch.append(self._route(host))
            host.settings |= transport.settings(self.wiring)

    def _port(self, device: str, cable: Cable, at_switch: bool) -> Port:
        dilation = self.wiring.dilation
        marks = at_switch and self.wiring.tcp == "dctcp"
        return Port(
            device=device,
            rate_bps=round(cable.rate_bps / dilation),
            queue_packets=cable.queue_packets,
            delay_ns=round(cable.delay_ns * dilation) if self.wiring.netem else 0,
            slack_ns=self.wiring.timer_slack_ns,
            count_bytes=self.wiring.offload,
            mark_ns=round(marking_ns(cable.rate_bps) * dilation) if marks else 0,
        )

    def _route(self, host: BatchNode) -> str:
        """The route carries the congestion control: a namespace may not set the sysctl."""
        way = f"via {FAR_END} onlink " if self.topology.routed else ""
        device = host.defaultIntf().name
        route = f"route replace 10.0.0.0/8 {way}dev {device} congctl {self.wiring.tcp}"
        if self.wiring.tcp == "dctcp":
            route += " features ecn"
        if self.wiring.dilation > 1 and self.wiring.rto_min_ns is None:
            route += f" rto_min {round(RTO_MIN_MS * self.wiring.dilation)}ms"
        return route

    # Reading back

    def _read_back(self) -> None:
        """Ask the kernel for every port's rate and queues; anything not as asked ends the run."""
        for node, ports in self.ports_by_node().items():
            with Namespace(self.pid(node)) as namespace:
                qdiscs = namespace.qdiscs()
                for live in ports:
                    index = namespace.devices[live.port.device]
                    classes = namespace.classes(index)
                    self._read_bps[live.link] = compare(live, classes, qdiscs.get(index, {}))

    def _set_marks(self) -> None:
        """What hosts' kernels do to flows, where a policy has them do it; read back too."""
        if self.marking is None:
            return
        for host in self.topology.hosts:
            kernel_marks.set_up(self.pid(host), host, self.marking)

    def _find_no_way_out(self) -> None:
        """Containers are joined to this network and to nothing else, or the run does not start."""
        if not self._containers:
            return
        from testbed.containers.isolation import ways_out

        for node, ports in self.ports_by_node().items():
            own = {live.port.device for live in ports} | self._node(node).inner
            found = ways_out(self.pid(node), own)
            if found:
                raise RunFailed(f"{node} is not isolated: it has {', '.join(found)}")

    def ports_by_node(self) -> dict[str, list[LivePort]]:
        by_node: dict[str, list[LivePort]] = {}
        for live in self.ports:
            by_node.setdefault(live.node, []).append(live)
        return by_node


def segments(port: Port, wiring: Wiring) -> str:
    """How many frames travel as one packet."""
    if not wiring.offload:
        return "gso_max_segs 1"
    wanted = round(port.rate_bps * wiring.dilation * SEGMENTS_PER_BPS)
    return f"gso_max_segs {min(MOST_SEGMENTS, max(LEAST_SEGMENTS, wanted))}"


def compare(
    live: LivePort, classes: Mapping[str, TrafficClass], qdiscs: Mapping[str, Qdisc]
) -> int:
    """The rate that the kernel holds for a port; an error if rate or queues are not as asked."""
    port = live.port
    where = f"{live.link} ({port.device})"
    if "1:1" not in classes:
        raise RunFailed(f"{where}: the kernel holds no shaper; {port.rate_bps} bit/s was asked")
    read_bps = classes["1:1"].rate_bps
    if abs(read_bps - port.rate_bps) > 8:
        raise RunFailed(f"{where}: {port.rate_bps} bit/s was asked, the kernel holds {read_bps}")
    for queue in live.queues:
        found = qdiscs.get(classes[queue.class_id].leaf) if queue.class_id in classes else None
        if found is None:
            raise RunFailed(f"{where}: the kernel holds no queue for class {queue.name}")
        limit = queue.limit_packets * (MTU_FRAME_BYTE if port.count_bytes else 1)
        if found.kind in ("pfifo", "bfifo") and found.limit != limit:
            raise RunFailed(
                f"{where}: a queue of {limit} was asked for class {queue.name}, "
                f"the kernel holds {found.limit}"
            )
    if port.delay_ns and not any(found.kind == "netem" for found in qdiscs.values()):
        raise RunFailed(f"{where}: {port.delay_ns} ns of delay was asked, the kernel holds none")
    return read_bps
