"""Switches of a network with several ways: Linux routers that share flows out by five-tuple.

Bridges would send packets in circles there. A router forwards IP packets between its ports, has a
route to every host over all next hops that are equally near, and picks one of them by hashing
addresses, ports and protocol with a seed of its own: a flow stays on one way, and routers one above
the other do not all choose alike. Nothing is asked or learnt while a run goes on: neighbours
are permanent, and each cable's far end answers to the same address, which is nobody's.
"""

import json
import time
import zlib
from collections.abc import Iterable
from typing import Any

from mininet.node import Switch

from basics.errors import RunFailed
from testbed import processes
from testbed.engine import FAR_END
from testbed.live.batch_mininet import FORWARDING_LIMIT_S, BatchMininet, BatchNode
from topologies import Topology
from topologies.routes import Routes

FIVE_TUPLE = 0x37  # source, destination, protocol, source port, destination port


class BatchRouter(BatchNode, Switch):
    """A switch that routes; `cables` and `routes` say how, before it is started."""

    def __init__(self, name: str, run_id: str, **params: Any) -> None:
        super().__init__(name, run_id, **params)
        self.cables: dict[str, tuple[str, str, str]] = {}  # device -> MAC, neighbour, its MAC
        self.routes: dict[str, list[str]] = {}  # address of a host -> devices, any of them

    def start(self, _controllers: Iterable[Any]) -> None:
        # lo first: without it the kernel takes no gateway.
        self.ip_batch[:0] = ["link set lo up"] + [
            line
            for device, (mac, neighbour, neighbour_mac) in self.cables.items()
            for line in (
                f"link set {device} address {mac} up",
                f"neigh replace {neighbour} lladdr {neighbour_mac} dev {device} nud permanent",
            )
        ]
        self.ip_batch += [self._route(address) for address in self.routes]

    def _route(self, address: str) -> str:
        devices = self.routes[address]
        if self.cables[devices[0]][1] == address:
            return f"route add {address}/32 dev {devices[0]}"
        if len(devices) == 1:
            return f"route add {address}/32 via {FAR_END} dev {devices[0]} onlink"
        hops = (f"nexthop via {FAR_END} dev {device} onlink" for device in devices)
        return f"route add {address}/32 {' '.join(hops)}"

    def configure(self) -> None:
        wanted = {
            "ip_forward": 1,
            # Not policy 1, which takes the number that the sender's socket drew for its packets
            # instead of looking at them: random, changed at timeouts, and the same at every router.
            "fib_multipath_hash_policy": 3,
            "fib_multipath_hash_fields": FIVE_TUPLE,
            # The same in every run, and another one at every router; 0 would mean a random one.
            "fib_multipath_hash_seed": zlib.crc32(self.name.encode()) or 1,
            # Answers may come back another way than the question went.
            **{f"conf/{name}/rp_filter": 0 for name in ("all", *self.cables)},
        }
        self.settings |= {name: str(value) for name, value in wanted.items()}
        super().configure()

    def await_forwarding(self) -> None:
        """Every route is held as asked, and the kernel has noticed that its cables are up."""
        give_up_s = time.monotonic() + FORWARDING_LIMIT_S
        while True:
            held = live_routes(processes.run(["ip", "-j", "route"], netns_pid=self.pid))
            lacking = [name for name in self.routes if held.get(name) != self.routes[name]]
            if not lacking:
                return
            if time.monotonic() > give_up_s:
                raise RunFailed(f"{self.name} has no way, or not every way, to {lacking[0]}")
            time.sleep(0.01)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Nothing to undo: routes go with their namespace."""


def live_routes(output: str) -> dict[str, list[str]]:
    """What `ip -j route` says: for every destination the devices that lead there and are up."""
    found: dict[str, list[str]] = {}
    for route in json.loads(output):
        hops = route.get("nexthops", [route])
        found[route["dst"]] = [
            hop["dev"] for hop in hops if not {"dead", "linkdown"} & set(hop["flags"])
        ]
    return found


def plan(net: BatchMininet, topology: Topology) -> None:
    """Tell every router its ports and routes, and every host who is at its cable's far end."""
    devices: dict[str, str] = {}
    for number, link in enumerate(net.links):
        ends = link.intf1, link.intf2
        for side, intf in enumerate(ends):
            is_host = intf.node in net.hosts
            # Locally administered, and the same in every run.
            made = f"02:00:00:{number >> 8:02x}:{number & 255:02x}:{side:02x}"
            intf.mac = intf.node.params["mac"] if is_host else made
        for near, far in (ends, ends[::-1]):
            devices[f"{near.node.name}->{far.node.name}"] = near.name
            if near.node in net.hosts:
                near.node.neighbours = {FAR_END: far.mac}
            else:
                neighbour = address(far.node) if far.node in net.hosts else FAR_END
                near.node.cables[near.name] = (near.mac, neighbour, far.mac)
    routes = Routes(topology)
    for router in net.switches:
        for host in net.hosts:
            hops = routes.next_hops(router.name, host.name)
            router.routes[address(host)] = [devices[link] for link in hops]


def address(host: BatchNode) -> str:
    found: str = host.params["ip"].partition("/")[0]
    return found
