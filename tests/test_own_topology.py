"""A topology of one's own: any sane name works on a live network, what cannot run is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from basics.errors import BadInput
from policies.link import link_policies
from testbed import machine, processes
from testbed.engine import MULTIPATH, Wiring
from testbed.live.network import Network
from testbed.spec import load
from tests.conftest import REPOSITORY
from topologies import Cable, Kind, Link, Topology
from topologies.flaws import flaw

CABLE = Cable(rate_bps=200_000_000, delay_ns=10_000, queue_packets=100)
QUICKSTART = REPOSITORY / "experiments" / "quickstart.yaml"
LONG = "the-switch-at-the-top-of-rack-12"  # 32 characters; a device has 15


def pair(left: str = "left", right: str = "right", cable: Cable = CABLE) -> Topology:
    """Two switches with two hosts each."""
    plugs = [("h1", left), ("h2", left), ("h3", right), ("h4", right), (left, right)]
    links = tuple(Link(a, b, cable) for a, b in plugs)
    return Topology(("h1", "h2", "h3", "h4"), (left, right), links)


def rack(switch: str) -> Topology:
    return Topology(("h1", "h2"), (switch,), tuple(Link(h, switch, CABLE) for h in ("h1", "h2")))


GRAPHS = [
    pytest.param(
        pair(),
        marks=pytest.mark.skipif(
            MULTIPATH not in machine.probe().features, reason="this kernel has no multipath"
        ),
        id="left-right",
    ),
    pytest.param(
        pair("aggregation-left", LONG),
        marks=pytest.mark.skipif(
            MULTIPATH not in machine.probe().features, reason="this kernel has no multipath"
        ),
        id="long",
    ),
    pytest.param(rack("top"), id="top"),
    pytest.param(rack(LONG), id="long-rack"),
    pytest.param(rack("default"), id="default"),
]


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("graph", GRAPHS)
def test_switches_may_have_any_name(graph: Topology) -> None:
    with Network(graph, link_policies()["fifo"], Wiring(), run_id="test00") as net:
        assert {link for link, _, _ in net.asked_and_read_bps()} == set(graph.link_names)
        first, last = graph.hosts[0], graph.hosts[-1]
        processes.run(["ping", "-c1", "-W2", net.address(last)], netns_pid=net.pid(first))
        net._containers = {host: net.pid(host) for host in graph.hosts}
        net._find_no_way_out()  # every device is the network's own


def test_the_graphs_of_these_tests_and_all_that_ship_have_no_flaw() -> None:
    options = {"leaf-spine": {"leaves": 2, "spines": 2}, "fat-tree": {"k": 4}}
    for name, kind in topologies.available().items():
        assert flaw(kind(4, CABLE, **options.get(name, {})), 4) is None
    assert flaw(pair("left", LONG), 4) is None


def changed(**parts: object) -> Topology:
    return replace(pair(), **parts)  # type: ignore[arg-type]


LINKS = pair().links


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (changed(hosts=("h1", "h2", "h3", "alpha")), "called h1 to h4"),
        (changed(hosts=("h2", "h1", "h3", "h4")), "in this order"),
        (pair("a b"), "'a b' cannot be the name of a switch"),
        (pair("a/b"), "cannot be the name"),
        (pair("x" * 33), "cannot be the name"),
        (pair("same", "same"), "same is there twice"),
        (pair("h1"), "h1 is there twice"),
        (changed(links=(*LINKS, Link("left", "middle", CABLE))), "neither host nor switch"),
        (changed(links=(*LINKS, Link("left", "right", CABLE))), "two links"),
        (changed(links=(*LINKS, Link("h1", "right", CABLE))), "h1 has 2 links; a host has one"),
        (changed(links=LINKS[1:]), "h1 has 0 links"),
        (changed(links=(Link("left", "h1", CABLE), *LINKS[1:])), "the host's end comes first"),
        (changed(links=(Link("h1", "h2", CABLE), *LINKS[2:])), "the host's end comes first"),
        (changed(links=LINKS[:-1]), "no way from h1 to h3"),
        (pair(cable=replace(CABLE, rate_bps=0)), "no rate"),
    ],
)
def test_what_cannot_be_run_is_refused_at_the_door(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, graph: Topology, said: str
) -> None:
    found = flaw(graph, 4)
    assert found is not None
    assert said in found
    build: Callable[..., Topology] = lambda hosts, cable: graph  # noqa: E731
    monkeypatch.setitem(topologies.available(), "mine", Kind(build))
    with pytest.raises(BadInput) as caught:
        load(QUICKSTART, ["topology.kind=mine"])
    assert "topology.kind: found mine, whose graph cannot be run: " in str(caught.value)
    assert "\n" not in str(caught.value)
