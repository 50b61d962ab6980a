"""Graphs: that they are what their names promise, and that routes through them are."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from basics.options import Misfit
from topologies import Cable, Link, Topology
from topologies.routes import NO_LINK, Routes, addresses, five_tuple_key, murmur3

CABLE = Cable(rate_bps=10**10, delay_ns=1000, queue_packets=100)
KEYS = st.integers(0, 2**32 - 1)


def tor(hosts: int) -> Topology:
    return topologies.available()["tor"](hosts, CABLE)


def leaf_spine(hosts: int, leaves: int, spines: int, oversubscription: float = 1) -> Topology:
    return topologies.available()["leaf-spine"](
        hosts, CABLE, leaves=leaves, spines=spines, oversubscription=oversubscription
    )


def fat_tree(k: int, hosts: int | None = None, oversubscription: float = 1) -> Topology:
    return topologies.available()["fat-tree"](
        hosts or k**3 // 4, CABLE, k=k, oversubscription=oversubscription
    )


def test_helpers_in_the_folder_are_not_topologies() -> None:
    assert list(topologies.available()) == ["fat-tree", "leaf-spine", "tor"]


# ---- the graphs ------------------------------------------------------------------------------


def rates(topology: Topology, a: str, b: str) -> set[int]:
    """Of the links between nodes whose names start so."""
    return {
        link.cable.rate_bps
        for link in topology.links
        if link.a.startswith(a) and link.b.startswith(b)
    }


def test_a_leaf_sends_up_what_its_hosts_do_over_the_oversubscription() -> None:
    racks = leaf_spine(hosts=8, leaves=2, spines=2, oversubscription=2)
    assert racks.switches == ("leaf1", "leaf2", "spine1", "spine2")
    assert [link.b for link in racks.links[:8]] == ["leaf1"] * 4 + ["leaf2"] * 4
    assert rates(racks, "h", "leaf") == {10**10}
    assert rates(racks, "leaf", "spine") == {10**10}  # 4 hosts, halved, over 2 spines
    assert len(racks.links) == 8 + 2 * 2


@pytest.mark.parametrize("k", [2, 4, 8, 16])
def test_a_fat_tree_has_switches_of_k_ports_each(k: int) -> None:
    tree = fat_tree(k)
    assert len(tree.hosts) == k**3 // 4
    assert len(tree.switches) == 5 * k**2 // 4
    ports = Counter(node for link in tree.links for node in (link.a, link.b))
    assert {ports[switch] for switch in tree.switches} == {k}
    assert {ports[host] for host in tree.hosts} == {1}


def test_a_fat_tree_squeezes_traffic_at_the_edge_and_no_further() -> None:
    tree = fat_tree(4, oversubscription=2.5)
    assert rates(tree, "h", "edge") == {10**10}
    assert rates(tree, "edge", "agg") == rates(tree, "agg", "core") == {4 * 10**9}


def test_fewer_hosts_are_spread_over_the_edge_switches() -> None:
    tree = fat_tree(4, hosts=8)
    assert [link.b for link in tree.links[:8]] == [f"edge{number}" for number in range(1, 9)]


def test_what_does_not_go_together_is_refused_by_key() -> None:
    with pytest.raises(Misfit, match="multiple of leaves") as uneven:
        leaf_spine(hosts=9, leaves=2, spines=2)
    with pytest.raises(Misfit, match="room for 16") as crowded:
        fat_tree(4, hosts=17)
    assert (uneven.value.key, crowded.value.key) == ("hosts", "hosts")


# ---- routes ----------------------------------------------------------------------------------


@st.composite
def anything_connected(draw: st.DrawFn) -> Topology:
    """Switches joined at random, a host on each: routes are for any topology."""
    switches = topologies.numbered("s", draw(st.integers(2, 7)))
    joined = {(draw(st.integers(0, far - 1)), far) for far in range(1, len(switches))}
    anywhere = st.integers(0, len(switches) - 1)
    for near, far in draw(st.lists(st.tuples(anywhere, anywhere), max_size=12)):
        if near < far:
            joined.add((near, far))
    hosts = topologies.host_names(len(switches))
    links = [Link(host, switch, CABLE) for host, switch in zip(hosts, switches, strict=True)]
    links += [Link(switches[near], switches[far], CABLE) for near, far in sorted(joined)]
    return Topology(hosts, switches, tuple(links))


GRAPHS = st.one_of(
    anything_connected(),
    st.builds(tor, st.integers(2, 20)),
    st.builds(
        lambda leaves, each, spines: leaf_spine(leaves * each, leaves, spines),
        st.integers(1, 6),
        st.integers(2, 4),
        st.integers(1, 5),
    ),
    st.integers(1, 3).flatmap(
        lambda half: st.builds(fat_tree, st.just(2 * half), st.integers(2, 2 * half**3))
    ),
)


def distance(topology: Topology, src: str, dst: str) -> int:
    """Links between two hosts, by a search that shares nothing with `Routes`."""
    near: dict[str, set[str]] = {}
    for link in topology.links:
        near.setdefault(link.a, set()).add(link.b)
        near.setdefault(link.b, set()).add(link.a)
    reached, steps = {src}, 0
    while dst not in reached:
        reached = reached.union(*(near[node] for node in reached))
        steps += 1
    return steps


@given(GRAPHS, st.data())
@settings(deadline=None)
def test_a_path_is_connected_shortest_and_free_of_loops(
    topology: Topology, data: st.DataObject
) -> None:
    hosts = st.sampled_from(topology.hosts)
    src, dst, key = data.draw(hosts), data.draw(hosts), data.draw(KEYS)
    routes = Routes(topology)
    path = routes.path(src, dst, key)
    ends = [link.split("->") for link in path]
    assert len(path) == distance(topology, src, dst)
    if src == dst:
        return
    assert (ends[0][0], ends[-1][1]) == (src, dst)
    assert all(first[1] == second[0] for first, second in pairwise(ends))
    visited = [near for near, _ in ends] + [dst]
    assert len(set(visited)) == len(visited)
    assert set(path) <= set(topology.link_names)
    assert len(path) <= routes.width


@given(GRAPHS, st.data())
@settings(deadline=None)
def test_many_at_once_are_the_same_as_one_by_one(topology: Topology, data: st.DataObject) -> None:
    index = st.integers(0, len(topology.hosts) - 1)
    flows = data.draw(st.lists(st.tuples(index, index, KEYS), min_size=1, max_size=20))
    routes = Routes(topology)
    rows = routes.paths(*(np.array(column) for column in zip(*flows, strict=True)))
    assert rows.shape == (len(flows), routes.width)
    for row, (src, dst, key) in zip(rows.tolist(), flows, strict=True):
        path = routes.path(topology.hosts[src], topology.hosts[dst], key)
        links = [link for link in row if link != NO_LINK]
        assert tuple(topology.link_names[link] for link in links) == path
        assert row[len(links) :] == [NO_LINK] * (routes.width - len(links))


def ways(routes: Routes, at: str, dst: str) -> int:
    """The number of different shortest ways from a switch to a host."""
    following = [link.split("->")[1] for link in routes.next_hops(at, dst)]
    return sum(1 if node == dst else ways(routes, node, dst) for node in following)


@given(GRAPHS, st.data())
@settings(deadline=None)
def test_there_are_as_many_ways_back_as_there(topology: Topology, data: st.DataObject) -> None:
    a, b = data.draw(st.sampled_from(topology.links)), data.draw(st.sampled_from(topology.links))
    if not {a.a, b.a} <= set(topology.hosts) or a == b:
        return
    routes = Routes(topology)
    assert ways(routes, a.b, b.a) == ways(routes, b.b, a.a)


def test_there_are_as_many_ways_between_pods_as_cores() -> None:
    routes = Routes(fat_tree(8))
    assert ways(routes, "edge1", "h128") == 16  # another pod
    assert ways(routes, "edge1", "h8") == 4  # another edge switch of the pod
    assert ways(routes, "edge1", "h2") == 1


def test_a_rack_gives_the_two_links_through_its_switch() -> None:
    assert Routes(tor(4)).path("h2", "h4", 12345) == ("h2->s1", "s1->h4")


def test_flows_are_spread_evenly_at_both_levels_of_a_fat_tree() -> None:
    """Ports in a row, as a kernel hands them out: 64 ways, each within 5 sigma of its share."""
    routes, flows = Routes(fat_tree(16)), 64_000
    ports = 32768 + np.arange(flows) % 28_000
    keys = five_tuple_key(addresses(0), addresses(1023), ports, 5000 + np.arange(flows) // 28_000)
    rows = routes.paths(np.zeros(flows, int), np.full(flows, 1023), keys)
    _, counts = np.unique(rows[:, 2], return_counts=True)  # agg -> core: one per way
    assert len(counts) == 64
    assert abs(counts - flows / 64).max() < 5 * (flows / 64) ** 0.5


def test_paths_are_the_same_on_every_machine() -> None:
    """Golden: engines on different machines have to agree, and old runs stay comparable."""
    routes = Routes(fat_tree(4))
    found = [routes.path("h1", "h16", key)[2].removeprefix("agg") for key in range(4, 12)]
    assert " ".join(found) == (
        "2->core3 2->core4 2->core4 1->core1 2->core3 2->core4 1->core1 1->core1"
    )


def murmur3_by_hand(data: bytes) -> int:
    """MurmurHash3_x86_32, seed 0, of whole words: as its author wrote it, one step a line."""
    state = 0
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 % 2**32
        word = (word << 15 | word >> 17) % 2**32 * 0x1B873593 % 2**32
        state = (state ^ word) << 13 | (state ^ word) >> 19
        state = (state % 2**32 * 5 + 0xE6546B64) % 2**32
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B % 2**32
    state = (state ^ state >> 13) * 0xC2B2AE35 % 2**32
    return state ^ state >> 16


@given(KEYS, KEYS, st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 255))
def test_a_five_tuple_is_hashed_by_murmur3(
    source: int, destination: int, port: int, to_port: int, protocol: int
) -> None:
    words = (source, destination, port << 16 | to_port, protocol)
    data = b"".join(word.to_bytes(4, "little") for word in words)
    alone = five_tuple_key(source, destination, port, to_port, protocol)
    assert alone.tolist() == [murmur3_by_hand(data)]
    many = five_tuple_key([source] * 2, destination, [port, port ^ 1], to_port, protocol)
    assert many[0] == alone[0] != many[1]


def test_murmur3_gives_the_published_value() -> None:
    assert murmur3([np.frombuffer(b"test", "<u4")]).tolist() == [0xBA6BD213]
    assert murmur3_by_hand(b"test") == 0xBA6BD213


def test_a_topology_without_a_way_is_refused() -> None:
    islands = Topology(
        ("h1", "h2"), ("s1", "s2"), (Link("h1", "s1", CABLE), Link("h2", "s2", CABLE))
    )
    with pytest.raises(ValueError, match="no way between s"):
        Routes(islands)
