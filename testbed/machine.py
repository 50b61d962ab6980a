"""What this machine can do: probed, never assumed."""

import os
import platform
import shutil
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from basics.errors import CannotRun
from basics.home import how
from testbed import __version__, processes
from testbed.live import kernel_marks
from testbed.live.tc import NFT

# Each qdisc with arguments that any kernel having it accepts, tried in a throw-away namespace.
_QDISCS = {
    "htb": "htb",
    "pfifo": "pfifo limit 10",
    "prio": "prio",
    "netem": "netem delay 1ms",
    "fq": "fq",
    "fq_codel": "fq_codel",
    "codel": "codel",
    "red": "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55",
    "ets": "ets bands 3 strict 3",
    "tbf": "tbf rate 1mbit burst 10kb latency 10ms",
}
_PROBE = "\n".join(
    [
        *(f"tc qdisc replace dev lo root {how} && echo {name}" for name, how in _QDISCS.items()),
        "tc qdisc replace dev lo root handle 1: htb && tc filter add dev lo parent 1: protocol ip "
        "u32 match ip tos 0x10 0xfc flowid 1:1 && echo u32",
        # Routers that share flows out: several next hops, and a hash of the five-tuple with a seed.
        "ip link set lo up && ip link add probe0 type veth peer name probe1 && "
        "ip link set probe0 up && ip link set probe1 up && cd /proc/sys/net/ipv4 && "
        "echo 1 > ip_forward && echo 3 > fib_multipath_hash_policy && "
        "echo 55 > fib_multipath_hash_fields && echo 1 > fib_multipath_hash_seed && "
        "ip route add 192.0.2.1/32 nexthop via 169.254.0.1 dev probe0 onlink "
        "nexthop via 169.254.0.1 dev probe1 onlink && "
        "echo multipath",
        "true",
    ]
)
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "bridge": "iproute2",
    "mnexec": "mininet",
    "brctl": "bridge-utils",
    "ping": "iputils-ping",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "iperf3": "iperf3",
}


@dataclass(frozen=True)
class Machine:
    root: bool
    missing_packages: tuple[str, ...]
    features: frozenset[str]
    tcp: frozenset[str]


@cache
def probe() -> Machine:
    root = os.geteuid() == 0
    missing = {package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
    if not importable(MININET):
        missing.add("mininet")
    features: frozenset[str] = frozenset()
    if root and not missing & {"iproute2", "util-linux"}:
        output = processes.run(["unshare", "-n", "sh", "-c", f"exec 2> /dev/null\n{_PROBE}"])
        features = frozenset(output.split())
        if kernel_marks.work_here():
            features |= {NFT}
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    tcp = available.read_text().split() if available.exists() else []
    return Machine(root, tuple(sorted(missing)), features, frozenset(tcp))


def importable(module: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


MININET = "mininet.net"
NO_MININET = (
    "this Python finds no Mininet, which both live engines play with: install Debian's mininet, "
    "and make the environment with --system-site-packages"
)
NO_ROOT = "the realtime engine makes network namespaces and needs root: use sudo"
WITHOUT_ROOT = (
    "without root `--engine fluid` (a simulation) works now, and `--engine virtual` (a real "
    f"kernel) after `{how('make virtual')}`, once"
)


def demand_realtime() -> Machine:
    """The machine, if it can run Mininet networks at all; otherwise say what is missing."""
    machine = probe()
    if not machine.root:
        raise CannotRun(f"{NO_ROOT}; {WITHOUT_ROOT}")
    if machine.missing_packages:
        raise CannotRun(
            f"missing Debian packages: {' '.join(machine.missing_packages)}; run "
            f"`{how('make setup')}`"
        )
    return machine


def versions() -> dict[str, str]:
    found = {"giveway": __version__, "python": platform.python_version()}
    for package in ("numpy", "pyarrow", "iperf3"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if importable(MININET):
        from mininet.net import VERSION

        found["mininet"] = VERSION
    return found


def kernel() -> str:
    return f"{platform.system()} {platform.release()}"
