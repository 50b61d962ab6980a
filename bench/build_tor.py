"""Building and tearing down a shaped rack, against stock Mininet doing the same.

Each build runs in a process and a network namespace of its own, so that stock Mininet, whose
switch ports live in the root namespace, touches nothing of the machine's. The clock starts when
everything is imported and stops when the kernel has really taken the last namespace apart.
"""

import socket
import sys
import time
from collections.abc import Callable
from subprocess import PIPE

from basics.errors import RunFailed
from bench.base import Effort, Ratio, run_id
from testbed import processes

GOAL = 4.0
HOSTS, RATE_MBIT = 64, 1000
GONE_LIMIT_S = 30.0
BUILD_LIMIT_S = 120.0


def measure(effort: Effort) -> list[Ratio]:
    hosts = 4 if effort.tiny else HOSTS
    pairs = [(timed("stock", hosts), timed("giveway", hosts)) for _ in range(effort.repeats)]
    return [
        Ratio(
            f"stock Mininet's time over ours, {hosts} shaped hosts up and down",
            tuple(stock_s / ours_s for stock_s, ours_s in pairs),
            GOAL,
            note=", ".join(f"{stock_s:.2f} s / {ours_s:.2f} s" for stock_s, ours_s in pairs),
        )
    ]


def timed(who: str, hosts: int) -> float:
    """Seconds that a fresh process needs to build the rack and take it down."""
    command = [sys.executable, "-m", "bench.build_tor", who, str(hosts)]
    return float(processes.run(["unshare", "-n", *command], limit_s=BUILD_LIMIT_S).split()[-1])


def stock(hosts: int) -> Callable[[], None]:
    """What `mn --topo single,64 --switch lxbr --link tc,bw=1000 --controller none` builds."""
    from mininet import net
    from mininet.link import TCLink
    from mininet.log import setLogLevel
    from mininet.nodelib import LinuxBridge
    from mininet.topo import SingleSwitchTopo

    net.fixLimits = lambda: None  # it would rewrite the machine's sysctls
    setLogLevel("critical")

    def build() -> None:
        topology = SingleSwitchTopo(hosts, lopts={"bw": RATE_MBIT})
        made = net.Mininet(topology, switch=LinuxBridge, link=TCLink, controller=None, build=False)
        try:
            made.start()
        finally:
            made.stop()

    return build


def giveway(hosts: int) -> Callable[[], None]:
    import topologies
    from policies.link import link_policies
    from testbed.engine import Wiring
    from testbed.live.network import Network

    cable = topologies.Cable(RATE_MBIT * 1_000_000, 0, 1000)
    topology = topologies.available()["tor"](hosts, cable)
    policy = link_policies()["fifo"]

    def build() -> None:
        with Network(topology, policy, Wiring(), run_id=run_id()):
            pass

    return build


class Witness:
    """A namespace that dies after all others, and a cable to it whose end we see disappear.

    The kernel takes dead namespaces apart in the background, in the order in which they died. So
    when the witness is gone, all that died before it are gone too.
    """

    def __init__(self) -> None:
        self._process = processes.popen(["unshare", "-n", "cat"], run_id(), stdin=PIPE, stdout=PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"here?\n")
        self._process.stdin.flush()
        self._process.stdout.readline()  # by now it has its namespace
        peer = ["peer", "name", "witness", "netns", str(self._process.pid)]
        processes.run(["ip", "link", "add", "witness", "type", "veth", *peer])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        give_up_s = time.perf_counter() + GONE_LIMIT_S
        while any(name == "witness" for _, name in socket.if_nameindex()):
            if time.perf_counter() > give_up_s:
                raise RunFailed(f"the namespaces were not gone within {GONE_LIMIT_S:g} s")
            time.sleep(0.001)


def seconds(build: Callable[[], None]) -> float:
    """How long a build takes until the kernel has cleaned up after it."""
    witness = Witness()
    try:
        start_s = time.perf_counter()
        build()
    finally:
        witness.end()
    return time.perf_counter() - start_s


if __name__ == "__main__":
    print(seconds({"stock": stock, "giveway": giveway}[sys.argv[1]](int(sys.argv[2]))))
