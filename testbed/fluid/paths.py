"""The links that connections pass, there and back, by the routes of the topology."""

import numpy as np
import numpy.typing as npt

from testbed.fluid.state import HOPS
from topologies import Topology
from topologies.routes import TCP, Routes, addresses, five_tuple_key

Integers = npt.NDArray[np.int64]


class Paths:
    def __init__(self, topology: Topology) -> None:
        self._routes = Routes(topology)
        self._link_delay_ns = np.repeat([float(link.cable.delay_ns) for link in topology.links], 2)

    def there_and_back(
        self, src: Integers, dst: Integers, src_port: Integers, dst_port: int | Integers
    ) -> tuple[Integers, Integers, Integers, npt.NDArray[np.float64]]:
        """Links there and back, how many, and the time that they take when nothing waits."""
        ports = np.broadcast_to(dst_port, src_port.shape)
        there = five_tuple_key(addresses(src), addresses(dst), src_port, ports, TCP)
        back = five_tuple_key(addresses(dst), addresses(src), ports, src_port, TCP)
        path = np.full((2, len(src), HOPS), -1)
        path[0, :, : self._routes.width] = self._routes.paths(src, dst, there)
        path[1, :, : self._routes.width] = self._routes.paths(dst, src, back)
        hops = (path[0] >= 0).sum(axis=1)
        delay = np.where(path[0] >= 0, self._link_delay_ns[path[0]], 0.0).sum(axis=1)
        return path[0], path[1], hops, delay
