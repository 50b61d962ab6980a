"""The live network: really shaped, really separated, really gone afterwards."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

import topologies
from basics.errors import RunFailed
from policies.link import (
    Discipline,
    LinkPolicy,
    Port,
    ServerPort,
    ServiceClass,
    Situation,
    link_policies,
    three_bands,
)
from policies.link.port import ServerMap
from testbed import machine, processes
from testbed.engine import Wiring
from testbed.live import tc
from testbed.live.network import LivePort, Network, compare
from testbed.live.policy_agent import tell_kernel
from testbed.live.rtnetlink import Namespace, Qdisc, TrafficClass, device_indexes
from tests.promises import MEASURED, PLACES, PROMISES, urgent_share

pytestmark = pytest.mark.root

HERE = [
    policy for policy in link_policies().values() if tc.needs(policy) <= machine.probe().features
]
CABLE = topologies.Cable(rate_bps=200_000_000, delay_ns=10_000, queue_packets=100)


def tor(hosts: int) -> topologies.Topology:
    return topologies.available()["tor"](hosts, CABLE)


def network(policy: str = "fifo", hosts: int = 3, wiring: Wiring | None = None) -> Network:
    return Network(tor(hosts), link_policies()[policy], wiring or Wiring(), run_id="test00")


@pytest.mark.usefixtures("nothing_left")
def test_hosts_reach_each_other_and_nothing_else() -> None:
    with network() as net:
        for src in net.topology.hosts:
            for dst in net.topology.hosts:
                processes.run(["ping", "-c1", "-W2", net.address(dst)], netns_pid=net.pid(src))
        routes = processes.run(["ip", "route"], netns_pid=net.pid("h1"))
        assert routes.split()[:3] == ["10.0.0.0/8", "dev", "h1-eth0"]
        assert len(routes.splitlines()) == 1


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("policy", HERE, ids=lambda policy: policy.name)
def test_the_kernel_holds_what_was_asked_in_both_directions(policy: LinkPolicy) -> None:
    with network(policy.name) as net:
        links = {link: (asked, read) for link, asked, read in net.asked_and_read_bps()}
    assert set(links) == {f"h{n}->s1" for n in (1, 2, 3)} | {f"s1->h{n}" for n in (1, 2, 3)}
    assert all(asked == read == CABLE.rate_bps for asked, read in links.values())


@pytest.mark.usefixtures("nothing_left")
def test_dilation_slows_the_links_and_stretches_tcps_shortest_timeout() -> None:
    with network(wiring=Wiring(dilation=4)) as net:
        assert {live.port.rate_bps for live in net.ports} == {CABLE.rate_bps // 4}
        assert all(read == CABLE.rate_bps for _, _, read in net.asked_and_read_bps())
        route = processes.run(["ip", "route"], netns_pid=net.pid("h1"))
        assert "congctl cubic" in route
        assert "rto_min lock 800ms" in route


@pytest.mark.usefixtures("nothing_left")
def test_without_offloads_no_packet_is_larger_than_the_mtu() -> None:
    with network(wiring=Wiring(offload=False)) as net:
        link = processes.run(["ip", "-d", "link", "show", "h1-eth0"], netns_pid=net.pid("h1"))
        assert "gso_max_segs 1 " in link
        with Namespace(net.pid("h1")) as namespace:
            index = device_indexes(net.pid("h1"))["h1-eth0"]
            queue = namespace.qdiscs()[index]["10:0"]
    assert (queue.kind, queue.limit) == ("pfifo", CABLE.queue_packets)


@pytest.mark.usefixtures("nothing_left")
def test_a_failure_while_building_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tc, "commands", lambda discipline, port: ["qdisc add nonsense"])
    with pytest.raises(RunFailed, match="tc -batch"), network():
        pass


@pytest.mark.usefixtures("nothing_left")
def test_a_kernel_that_ignored_the_shaper_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tc, "commands", lambda discipline, port: [])
    with pytest.raises(RunFailed, match="the kernel holds no shaper"), network():
        pass


def test_a_wrong_rate_or_queue_is_noticed() -> None:
    policy = link_policies()["fifo"]
    port = Network(tor(2), policy, Wiring(offload=False), run_id="test00")._port(
        "d", CABLE, at_switch=True
    )
    live = LivePort("h1->s1", "h1", port, tuple(tc.queues(policy.discipline_at(port), port)))

    def held(rate_bps: int, limit: int) -> tuple[dict[str, TrafficClass], dict[str, Qdisc]]:
        made = {
            handle: TrafficClass(handle, "1:0", "a:0", rate_bps, rate_bps, 0, 0, 0)
            for handle in ("1:1", "1:10")
        }
        options = limit.to_bytes(4, "little")
        return made, {"a:0": Qdisc("a:0", "1:10", "pfifo", options, 0)}

    assert compare(live, *held(CABLE.rate_bps, 100)) == CABLE.rate_bps
    with pytest.raises(RunFailed, match="was asked, the kernel holds"):
        compare(live, *held(CABLE.rate_bps // 2, 100))
    with pytest.raises(RunFailed, match="a queue of 100 was asked"):
        compare(live, *held(CABLE.rate_bps, 1000))


SERVERS = (ServerPort("one", 7000), ServerPort("other", 7002))


def mixed(port: Port, situation: Situation, period_ns: int) -> Discipline:
    """Bands and servers at one port, and the servers change places after a period."""
    ranked = SERVERS[::-1] if situation.time_ns else SERVERS
    servers = [
        ServiceClass(f"rank-{at}", 3, weight=1 + 2 * at, servers=(server,), limit_packets=30 + at)
        for at, server in enumerate(ranked)
        if port.servers
    ]
    high, middle, low = three_bands({"low": 0.25}).classes
    return Discipline((replace(high, limit_packets=20), middle, low, *servers))


@pytest.mark.usefixtures("nothing_left")
def test_the_kernel_takes_bands_servers_weights_and_limits_together() -> None:
    acting = replace(link_policies()["tensorlights-rr"], name="all", discipline=mixed)
    with Network(
        tor(2),
        acting,
        Wiring(offload=False),
        run_id="test00",
        servers=ServerMap(held={"h1": SERVERS}),
    ) as net:
        [live] = [live for live in net.ports if live.node == "h1"]
        assert len(live.queues) == 5

        def led() -> list[str]:
            told = ["tc", "filter", "show", "dev", live.port.device]
            shown = processes.run(told, netns_pid=net.pid("h1"))
            return re.findall(r"fh 803::\d .*flowid (\S+)", shown)

        assert led() == ["1:13", "1:14"]
        later = acting.discipline_at(live.port, Situation(acting.period_ns))
        tell_kernel(net.pid("h1"), tc.moves(later, live.port))
        assert led() == ["1:14", "1:13"]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("policy", [policy.name for policy in HERE if policy.name in MEASURED])
def test_two_saturating_senders_split_a_port_as_the_policy_promises(
    policy: str, place: str, tmp_path: Path
) -> None:
    least, most = PROMISES[policy].urgent
    share = urgent_share("realtime", policy, place, tmp_path)
    if policy == "fifo" and not least <= share <= most:
        # One queue prefers nobody, but who loses packets is chance: the middle of three.
        others = [tmp_path / "second", tmp_path / "third"]
        for folder in others:
            folder.mkdir()
        again = [urgent_share("realtime", policy, place, folder) for folder in others]
        share = median([share, *again])
    assert least <= share <= most


def test_every_policy_has_a_promise_that_is_tested() -> None:
    known = link_policies()
    assert set(PROMISES) == set(known)
    port = Port("h1-eth0", CABLE.rate_bps, CABLE.queue_packets)
    for name, promise in PROMISES.items():
        if promise.same_as is not None:
            disciplines = [known[one].discipline_at(port) for one in (name, promise.same_as)]
            assert disciplines[0] == disciplines[1]


@pytest.mark.usefixtures("nothing_left")
def test_networks_of_two_runs_live_side_by_side() -> None:
    with network() as one, network("strict-priority") as two:
        for net in (one, two):
            processes.run(["ping", "-c1", "-W2", net.address("h2")], netns_pid=net.pid("h1"))
        namespaces = {
            subprocess.run(
                ["readlink", f"/proc/{net.pid('h1')}/ns/net"], capture_output=True, check=True
            ).stdout
            for net in (one, two)
        }
        assert len(namespaces) == 2
