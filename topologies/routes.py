"""Which way a flow goes: shortest paths, and one of several equal ones by a hash (ECMP).

As in a data centre, each switch chooses by itself among its next hops: it mixes the flow's key, a
32-bit hash of the five-tuple, with a salt of its own and takes an equal share of the hash space for
each next hop. Without the salt, switches one above the other would choose alike and leave most
ways unused. All arithmetic is on 32-bit integers: the same on every machine.

`five_tuple_key` is MurmurHash3 (x86, 32 bit, seed 0) of four little-endian words: source address,
destination address, source port << 16 | destination port, protocol.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies import Topology

Integers = npt.NDArray[Any] | Sequence[int] | int
Words = npt.NDArray[np.uint32]
Links = npt.NDArray[np.int32]

TCP = 6
FIRST_ADDRESS = 0x0A000001  # 10.0.0.1 is h1
NO_LINK = -1


def addresses(hosts: Integers) -> Words:
    """The addresses of hosts by index, as numbers; the live engines give the same ones."""
    return np.asarray(np.asarray(hosts, np.uint32) + np.uint32(FIRST_ADDRESS))


def five_tuple_key(
    source: Integers,
    destination: Integers,
    source_port: Integers,
    destination_port: Integers,
    protocol: Integers = TCP,
) -> Words:
    """The key of flows: numbers or arrays in (addresses as numbers), 32-bit hashes out."""
    ports = _words(source_port) << np.uint32(16) | _words(destination_port)
    return murmur3([_words(source), _words(destination), ports, _words(protocol)])


def murmur3(words: Sequence[Words]) -> Words:
    """MurmurHash3_x86_32 with seed 0 of some 32-bit words; each may be an array."""
    state = np.zeros(1, np.uint32)  # an array even for single numbers: those may not overflow
    for word in words:
        mixed = _rotated(np.atleast_1d(word) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return scrambled(state ^ np.uint32(4 * len(words)))


def scrambled(words: Words) -> Words:
    """MurmurHash3's last step: every bit of a word has a say in every bit of the result."""
    words = (words ^ words >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    words = (words ^ words >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return np.asarray(words ^ words >> np.uint32(16))


def _rotated(words: Words, bits: int) -> Words:
    return np.asarray(words << np.uint32(bits) | words >> np.uint32(32 - bits))


def _words(numbers: Integers) -> Words:
    return np.asarray(numbers).astype(np.uint32)


class Routes:
    """All shortest ways through a topology.

    Links are directed and have an index: their place in `Topology.link_names`. Tables are by
    switch and by the switch of the destination; hosts only add their own two links.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.link_names = topology.link_names
        self._host_index = {name: index for index, name in enumerate(topology.hosts)}
        self._switch_index = {name: index for index, name in enumerate(topology.switches)}
        self._up, self._down, self._switch_of = self._plug_in()
        self._head, self._leaving = self._join()
        self._edges = sorted(set(self._switch_of.tolist()))  # switches that have hosts
        column = np.full(len(topology.switches), -1, np.int32)
        column[self._edges] = np.arange(len(self._edges))
        self._column = column[self._switch_of]  # of each host: its switch among the edges
        self._tabulate()
        names = [name.encode() for name in topology.switches]
        self._salt = np.array([zlib.crc32(name) for name in names], np.uint32)

    def path(self, src: str, dst: str, key: int) -> tuple[str, ...]:
        """The names of the links that a flow takes, by its key; none from a host to itself."""
        found = self.paths(self._host_index[src], self._host_index[dst], key)[0]
        return tuple(self.link_names[link] for link in found if link != NO_LINK)

    def paths(self, src: Integers, dst: Integers, keys: Integers) -> Links:
        """The links of many flows: hosts by index in, a row of link indexes a flow out.

        Rows are `width` wide; shorter ways end in -1.
        """
        src, dst, keys = np.atleast_1d(src), np.atleast_1d(dst), np.atleast_1d(_words(keys))
        found = np.full((len(src), self.width), NO_LINK, np.int32)
        away = np.flatnonzero(src != dst)
        found[away, 0] = self._up[src[away]]
        at, column = self._switch_of[src], self._column[dst]
        goal = self._switch_of[dst]
        for hop in range(1, self.width):
            arrived = away[at[away] == goal[away]]
            found[arrived, hop] = self._down[dst[arrived]]
            away = away[at[away] != goal[away]]
            if not len(away):
                break
            here, to = at[away], column[away]
            draw = scrambled(keys[away] ^ self._salt[here]).astype(np.uint64)
            choice = draw * self._count[here, to].astype(np.uint64) >> np.uint64(32)
            link = self._choices[self._first[here, to] + choice.astype(np.int64)]
            found[away, hop] = link
            at[away] = self._head[link]
        return found

    @property
    def width(self) -> int:
        """The most links that a path has."""
        return self._longest + 2

    def next_hops(self, switch: str, host: str) -> tuple[str, ...]:
        """The links out of a switch that are on a shortest way to a host."""
        here, there = self._switch_index[switch], self._host_index[host]
        if here == self._switch_of[there]:
            return (self.link_names[self._down[there]],)
        first = self._first[here, self._column[there]]
        count = self._count[here, self._column[there]]
        return tuple(self.link_names[link] for link in self._choices[first : first + count])

    # The tables

    def _plug_in(self) -> tuple[Links, Links, Links]:
        """Of every host: the link up, the link down, the switch."""
        table = np.full((3, len(self.topology.hosts)), NO_LINK, np.int32)
        for index, link in enumerate(self.topology.links):
            if link.a in self._host_index:
                host = self._host_index[link.a]
                if table[0, host] != NO_LINK:
                    raise ValueError(f"{link.a} has several links; a host has one")
                table[:, host] = 2 * index, 2 * index + 1, self._switch_index[link.b]
        if NO_LINK in table[0]:
            lonely = self.topology.hosts[int(np.argmin(table[0]))]
            raise ValueError(f"{lonely} has no link")
        return table[0], table[1], table[2]

    def _join(self) -> tuple[Links, list[list[tuple[int, int]]]]:
        """Where each link leads, and what leaves each switch: (link, switch at its end)."""
        head = np.full(len(self.link_names), -1, np.int32)
        leaving: list[list[tuple[int, int]]] = [[] for _ in self.topology.switches]
        for index, link in enumerate(self.topology.links):
            if link.a not in self._host_index:
                a, b = self._switch_index[link.a], self._switch_index[link.b]
                leaving[a].append((2 * index, b))
                leaving[b].append((2 * index + 1, a))
                head[[2 * index, 2 * index + 1]] = b, a
        return head, leaving

    def _tabulate(self) -> None:
        """For every switch and every switch with hosts: the links that lead nearer to it."""
        shape = len(self._leaving), len(self._edges)
        self._count, self._first = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        choices: list[int] = []
        self._longest = 0
        for column, goal in enumerate(self._edges):
            distance = self._distances(goal)
            for switch, leaving in enumerate(self._leaving):
                nearer = [link for link, to in leaving if distance[to] < distance[switch]]
                self._first[switch, column] = len(choices)
                self._count[switch, column] = len(nearer)
                choices += nearer
            furthest = max(self._edges, key=distance.__getitem__)
            if distance[furthest] >= len(self._leaving):
                names = self.topology.switches
                raise ValueError(f"there is no way between {names[furthest]} and {names[goal]}")
            self._longest = max(self._longest, distance[furthest])
        self._choices = np.array(choices, np.int32)

    def _distances(self, goal: int) -> list[int]:
        """Links between each switch and one of them; the number of switches if there is no way."""
        distance = [len(self._leaving)] * len(self._leaving)
        distance[goal] = 0
        waiting = deque([goal])
        while waiting:
            switch = waiting.popleft()
            for _, neighbour in self._leaving[switch]:
                if distance[neighbour] > distance[switch] + 1:
                    distance[neighbour] = distance[switch] + 1
                    waiting.append(neighbour)
        return distance
