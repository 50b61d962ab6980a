"""The hosts of a run know each other by name, ask nobody else, and nobody else notices."""

import socket
import time
from pathlib import Path

import pytest

import topologies
from policies.link import link_policies
from testbed.engine import Wiring
from testbed.live import hosts_file
from testbed.live.crew import Crew
from testbed.live.network import Network
from testbed.processes import Nursery
from workloads.control import Control

CABLE = topologies.Cable(rate_bps=200_000_000, delay_ns=10_000, queue_packets=100)
A_NAME_SERVERS_SILENCE_S = 3  # the least that a resolver waits for one; nothing here waits at all


def test_every_host_has_its_address_and_no_server_is_named(tmp_path: Path) -> None:
    hosts_file.write(tmp_path, topologies.host_names(300))
    lines = (tmp_path / hosts_file.HOSTS).read_text().splitlines()
    known = {name: address for address, name in map(str.split, lines)}
    assert known["localhost"] == "127.0.0.1"
    assert (known["h1"], known["h255"], known["h300"]) == ("10.0.0.1", "10.0.0.255", "10.0.1.44")
    assert "nameserver" not in (tmp_path / hosts_file.RESOLVER).read_text()


def asking(config: dict[str, str], control: Control) -> None:
    """A task that asks for an address, for a name, and for somebody that nobody knows."""
    begin_s = time.monotonic()
    address = socket.gethostbyname(config["name"])
    name = socket.gethostbyaddr(config["address"])[0]
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("no-such-host.example", 80)
    control.say("answers", address=address, name=name, spent_s=time.monotonic() - begin_s)
    control.hear()


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_a_task_finds_its_peers_by_name_and_waits_for_no_name_server(tmp_path: Path) -> None:
    before = Path("/etc/hosts").read_text()
    topology = topologies.available()["tor"](2, CABLE)
    hosts_file.write(tmp_path, topology.hosts)
    with (
        Network(topology, link_policies()["fifo"], Wiring(), run_id="test00") as network,
        Nursery("test00", tmp_path / "nursery.log", names=tmp_path) as nursery,
    ):
        peer = network.address("h2")
        task = nursery.start(
            "tests.test_names:asking",
            {"name": "h2", "address": peer},
            name="asking",
            log=tmp_path / "task.log",
            netns_pid=network.pid("h1"),
        )
        crew = Crew(nursery, [task])
        crew.await_all("answers")
        answers = task.said["answers"]
        assert (answers["address"], answers["name"]) == (peer, "h2")
        assert answers["spent_s"] < A_NAME_SERVERS_SILENCE_S
        assert Path("/etc/hosts").read_text() == before
        crew.dismiss()
