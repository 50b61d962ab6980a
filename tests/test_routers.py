"""Networks with several ways, live: everybody is reached, flows are spread, priority holds."""

import json
import socket
import struct
from itertools import permutations
from pathlib import Path

import pandas as pd
import pytest

import topologies
from basics.errors import RunFailed
from policies.link import link_policies
from testbed import machine, processes
from testbed.containers.isolation import ways_out
from testbed.engine import MULTIPATH, Wiring
from testbed.live.network import Network
from testbed.live.routers import BatchRouter, live_routes
from testbed.live.rtnetlink import Namespace
from tests.conftest import giveway
from tests.promises import HEADER, PROMISES, passed_byte, urgent_share
from workloads.sockets import come_from

CABLE = topologies.Cable(rate_bps=200_000_000, delay_ns=10_000, queue_packets=100)
ENGINES = [
    pytest.param("virtual", marks=pytest.mark.virtual),
    pytest.param(
        "realtime",
        marks=[
            pytest.mark.root,
            pytest.mark.skipif(
                MULTIPATH not in machine.probe().features, reason="this kernel has no multipath"
            ),
        ],
    ),
]
REALTIME_ONLY = ENGINES[1:]

MANY_FLOWS = """
name: many-flows
topology: {kind: leaf-spine, hosts: 4, leaves: 2, spines: 2, rate: 100 Mbit/s,
           delay: about 10 us, queue: 100 packets}
duration: 400 ms
flows: [{name: many, schedule: many.csv}]
policies: [strict-priority]
seeds: [0]
dilation: 1
"""
FLOWS_A_PAIR, FLOW_BYTE = 16, 10_000


def many_flows(folder: Path) -> Path:
    """Every host sends small flows to every other, one after the other: no port is ever full."""
    pairs = list(permutations(["h1", "h2", "h3", "h4"], 2))
    rows = [
        f"{(turn * len(pairs) + at) * 1_000_000},{src},{dst},{FLOW_BYTE}\n"
        for turn in range(FLOWS_A_PAIR)
        for at, (src, dst) in enumerate(pairs)
    ]
    (folder / "many.csv").write_text(HEADER + "".join(rows))
    (folder / "many.yaml").write_text(MANY_FLOWS)
    return folder / "many.yaml"


def run(file: Path, engine: str, out: Path) -> Path:
    done = giveway("run", file, "--engine", engine, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("engine", ENGINES)
def test_every_pair_is_reached_and_many_flows_use_both_spines(engine: str, tmp_path: Path) -> None:
    file = many_flows(tmp_path)
    out = run(file, engine, tmp_path / "out")
    flows = pd.read_parquet(out / "strict-priority" / "seed-0" / "flows.parquet")
    assert len(flows) == 12 * FLOWS_A_PAIR
    assert flows.end_ns.notna().all()
    carried = upward_byte(out)
    for leaf in ("leaf1", "leaf2"):
        both = [carried[f"{leaf}->spine{number}"] for number in (1, 2)]
        # 64 flows of 128 leave the rack, and as many answers: 5 sigma of a fair coin are 20 of 64.
        assert sum(both) > 64 * FLOW_BYTE
        assert all(0.19 < one / sum(both) < 0.81 for one in both), carried
    if engine == "virtual":
        again = run(file, engine, tmp_path / "again")
        assert upward_byte(again) == carried
        assert digest(again) == digest(out)


def upward_byte(out: Path, policy: str = "strict-priority") -> dict[str, int]:
    """What each link from a leaf to a spine has carried."""
    links = pd.read_parquet(out / policy / "seed-0" / "links.parquet")
    names = [f"leaf{leaf}->spine{spine}" for leaf in (1, 2) for spine in (1, 2)]
    return {name: passed_byte(links[links.link == name]) for name in names}


def digest(out: Path) -> str:
    found: str = json.loads((out / "summary.json").read_text())["digest"]
    return found


SERVER_JOBS = """
name: server-jobs
topology: {kind: leaf-spine, hosts: 4, leaves: 2, spines: 2, rate: 100 Mbit/s,
           delay: about 10 us, queue: 1000 packets}
duration: 1500 ms
training:
  - {name: ps, count: 4, profile: resnet32-cpu, model: 50 kB, aggregation: parameter-server,
     servers_on: spread, iteration: 20 ms, steps: 5}
policies: [strict-priority, fifo]
seeds: [0]
dilation: 1
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_connections_to_servers_take_the_same_ways_under_every_policy(
    engine: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.yaml").write_text(SERVER_JOBS)
    out = run(tmp_path / "jobs.yaml", engine, tmp_path / "out")
    under = [upward_byte(out, policy) for policy in ("strict-priority", "fifo")]
    # Five models of 50 kB each way: a connection that went another way would be seen at once.
    for link in under[0]:
        assert abs(under[0][link] - under[1][link]) < 5 * 50_000 / 2, under


@pytest.mark.parametrize("engine", ENGINES)
def test_priority_holds_at_a_spine_as_in_a_rack(engine: str, tmp_path: Path) -> None:
    least, most = PROMISES["strict-priority"].urgent
    assert least <= urgent_share(engine, "strict-priority", "spine", tmp_path) <= most


@pytest.mark.parametrize("_engine", REALTIME_ONLY)
@pytest.mark.usefixtures("nothing_left")
def test_the_five_tuple_and_nothing_else_decides_the_way(_engine: str) -> None:
    """Not, for example, the number that a sender's kernel draws for every new connection."""
    topology = topologies.available()["leaf-spine"](4, CABLE, leaves=2, spines=2)
    with Network(topology, link_policies()["fifo"], Wiring(), run_id="test00") as net:
        door = processes.in_network(
            net.pid("h3"), lambda: socket.create_server((net.address("h3"), 5000))
        )
        with door:
            for _ in range(16):
                send_kilobyte(net, "h1", 40000, door)
            same = [sent_byte(net, f"leaf1->spine{number}") for number in (1, 2)]
            for port in range(40001, 40033):
                send_kilobyte(net, "h1", port, door)
        spread = [sent_byte(net, f"leaf1->spine{number}") for number in (1, 2)]
    # Beside the connections there is a little of what IPv6 tells its neighbours.
    assert min(same) < 5_000 < 16_000 < max(same)
    assert min(after - before for before, after in zip(same, spread, strict=True)) > 5_000


def send_kilobyte(net: Network, host: str, port: int, door: socket.socket) -> None:
    """One connection from a port, gone without a trace, so that the port is free at once."""

    def connected() -> socket.socket:
        sock = socket.socket()
        sock.settimeout(5)
        come_from(sock, (net.address(host), port))
        sock.connect(door.getsockname())
        return sock

    with processes.in_network(net.pid(host), connected) as sock, door.accept()[0] as accepted:
        sock.sendall(bytes(1000))
        accepted.recv(1000, socket.MSG_WAITALL)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def sent_byte(net: Network, link: str) -> int:
    [live] = [live for live in net.ports if live.link == link]
    with Namespace(net.pid(live.node)) as namespace:
        classes = namespace.classes(namespace.devices[live.port.device])
    return sum(classes[queue.class_id].sent_byte for queue in live.queues)


def fat_tree() -> Network:
    topology = topologies.available()["fat-tree"](16, CABLE, k=4)
    return Network(topology, link_policies()["fifo"], Wiring(), run_id="test00")


@pytest.mark.parametrize("_engine", REALTIME_ONLY)
@pytest.mark.usefixtures("nothing_left")
def test_hosts_of_a_fat_tree_reach_each_other_and_nothing_else(_engine: str) -> None:
    with fat_tree() as net:
        for host in net.topology.hosts[1:]:
            processes.run(["ping", "-c1", "-W2", net.address(host)], netns_pid=net.pid("h1"))
        for node, ports in net.ports_by_node().items():
            assert ways_out(net.pid(node), {live.port.device for live in ports}) == []
        stranger = {live.port.device for live in net.ports_by_node()["edge1"]} - {"edge1-eth4"}
        assert "the interface edge1-eth4" in ways_out(net.pid("edge1"), stranger)
        assert "a route to 10.0.0.16" in ways_out(net.pid("edge1"), stranger)
        held = live_routes(processes.run(["ip", "-j", "route"], netns_pid=net.pid("edge1")))
        rates = {read for _, _, read in net.asked_and_read_bps()}
    assert held["10.0.0.1"] == ["edge1-eth1"]
    assert held["10.0.0.16"] == ["edge1-eth3", "edge1-eth4"]
    assert rates == {CABLE.rate_bps}


@pytest.mark.parametrize("_engine", REALTIME_ONLY)
@pytest.mark.usefixtures("nothing_left")
def test_a_router_that_lacks_a_way_ends_the_run(
    _engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_way_only(self: BatchRouter, address: str) -> str:
        return f"route add {address}/32 dev {self.routes[address][0]}"

    monkeypatch.setattr("testbed.live.routers.FORWARDING_LIMIT_S", 0.1)
    monkeypatch.setattr(BatchRouter, "_route", one_way_only)
    with pytest.raises(RunFailed, match="no way, or not every way, to 10"), fat_tree():
        pass


def test_ways_that_are_down_do_not_count() -> None:
    """What iproute2 6.1 printed while a cable's far end was not up yet."""
    output = """[
      {"dst":"10.0.0.1","dev":"leaf1-eth1","scope":"link","flags":[]},
      {"dst":"10.0.0.2","dev":"leaf1-eth2","scope":"link","flags":["linkdown"]},
      {"dst":"10.0.0.3","flags":[],"nexthops":[
        {"gateway":"169.254.0.1","dev":"leaf1-eth3","weight":1,"flags":["onlink"]},
        {"gateway":"169.254.0.1","dev":"leaf1-eth4","weight":1,"flags":["onlink","linkdown"]}]}]"""
    assert live_routes(output) == {
        "10.0.0.1": ["leaf1-eth1"],
        "10.0.0.2": [],
        "10.0.0.3": ["leaf1-eth3"],
    }
