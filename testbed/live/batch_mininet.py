"""Mininet with its slow parts batched, and nothing of it in the root namespace.

Mininet asks the kernel for one thing at a time and waits for a shell each time. Here the shells
of all nodes start side by side, all cables come from one `ip -batch`, and each node is
configured by one `ip -batch` and one `tc -batch` of its own, all nodes side by side. Switches
live in namespaces too, so nothing outlives their processes and no firewall of the machine
meddles with bridged packets. A single switch is a bridge; several are routers, see routers.py.
"""

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node
from mininet.nodelib import LinuxBridge

from basics.errors import CannotRun, RunFailed
from testbed import processes

# Mininet's one-time set-up only checks for root (the engine has) and rewrites the machine's
# sysctls (fixLimits), which a guest on somebody's machine must not do.
Mininet.inited = True

# Both ends of a cable would have the same index in their own namespaces, and a veth whose peer
# has its own index is not urgent to the kernel: its carrier would come up to a second late.
FIRST_INDEX = 1000
SETTINGS = Path("/proc/sys/net/ipv4")
SHELL_LIMIT_S = 10.0
FORWARDING_LIMIT_S = 10.0
SIDE_BY_SIDE = 8
LONGEST_DEVICE = 15  # characters; the kernel's IFNAMSIZ, without the end mark
NO_DEVICE = frozenset({"lo", "all", "default"})  # taken, or meaning something else to sysctl

# As Mininet sets its shells up; besides, bridged packets pass by the firewall hooks.
SHELL_SETUP = (
    "unset HISTFILE; stty -echo; set +m; "
    "for hook in /proc/sys/net/bridge/bridge-nf-call-*; do echo 0 > $hook; done 2> /dev/null"
)


class BatchNode(Node):
    """A node whose shell starts without being waited for, and which is configured in one go."""

    def __init__(self, name: str, run_id: str, **params: Any) -> None:
        self.run_id = run_id
        self.ip_batch: list[str] = []
        self.tc_batch: list[str] = []
        self.settings: dict[str, str] = {}  # of /proc/sys/net/ipv4
        self.neighbours: dict[str, str] = {}  # MAC by address; none: all hosts, as on a bridge
        self.inner: set[str] = set()  # devices besides the ends of its cables
        super().__init__(name, **{**params, "inNamespace": True})

    @property
    def enter(self) -> list[str]:
        """The command that takes a shell to the node's network: a new one."""
        # Not mnexec -c: it would call close() once for every descriptor that could be open.
        return ["mnexec", "-dn"]

    def startShell(self, mnopts: str | None = None) -> None:
        """Mininet's own shell, carrying the run id; `await_shell` waits for its prompt."""
        argv = [*self.enter, "bash", "--norc", "--noediting"]
        argv += ["-is", f"giveway:{self.run_id}:{self.name}"]
        self.master, self.slave = pty.openpty()
        self.shell = processes.popen(
            argv,
            self.run_id,
            base={**os.environ, "PS1": chr(127)},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )
        self.stdin = self.stdout = os.fdopen(self.master, "r")
        self.pid = self.shell.pid
        self.pollOut = select.poll()
        self.pollOut.register(self.stdout)
        self.outToNode[self.stdout.fileno()] = self.inToNode[self.stdin.fileno()] = self
        self.execed = False
        self.waiting = False

    def await_shell(self) -> None:
        """Wait for the prompt; by then mnexec has made the namespace."""
        while True:
            if not self.pollOut.poll(SHELL_LIMIT_S * 1000):
                raise RunFailed(f"the shell of {self.name} did not start within {SHELL_LIMIT_S} s")
            text = self.read(1024)
            if text.endswith(chr(127)):
                break
            if not text or self.shell.poll() is not None:
                raise RunFailed(f"the shell of {self.name} ended at once: {text.strip()}")
        self.write(SHELL_SETUP + "\n")
        self.waiting = True  # Mininet reads up to the next prompt before the next command
        self.waitOutput()

    def configure(self) -> None:
        """Apply what has been collected: settings, then two processes."""
        if self.settings:
            processes.in_network(self.pid, self._set_up)
        for tool, batch in (("tc", self.tc_batch), ("ip", self.ip_batch)):
            if batch:
                processes.run(
                    [tool, "-batch", "-"], stdin="\n".join(batch) + "\n", netns_pid=self.pid
                )

    def _set_up(self) -> None:
        """Write every setting, and read it back."""
        for name, value in self.settings.items():
            setting = SETTINGS / name
            try:
                setting.write_text(value)
                held = setting.read_text().split()
            except OSError as error:
                raise CannotRun(
                    f"{self.name}: this kernel does not take {value} for {setting}: "
                    f"{error.strerror}"
                ) from None
            if held != value.split():
                raise CannotRun(f"{self.name}: {value} was asked, {setting} holds {' '.join(held)}")

    def hang_up(self) -> None:
        """Ask the shell to go; `terminate` then finds it gone and does not have to wait."""
        if self.shell:
            self.shell.kill()


class BatchHost(BatchNode, Host):
    pass


class ContainerHost(BatchHost):
    """A host whose network is a container's; its shell is the machine's, and only configures."""

    def __init__(self, name: str, run_id: str, container_pid: int, **params: Any) -> None:
        self._container_pid = container_pid
        super().__init__(name, run_id, **params)

    @property
    def enter(self) -> list[str]:
        return ["mnexec", "-d", "nsenter", "-t", str(self._container_pid), "-n"]

    def startShell(self, mnopts: str | None = None) -> None:
        super().startShell(mnopts)
        self.pid = self._container_pid  # where cables are plugged in, and counters read


class BatchBridge(BatchNode, LinuxBridge):
    """Mininet's Linux bridge, made by `ip`; learning, no spanning tree, no multicast snooping."""

    @classmethod
    def setup(cls) -> None:
        """Mininet warns of firewall hooks here; SHELL_SETUP turns them off instead."""

    def start(self, _controllers: Iterable[Any]) -> None:
        usable = len(self.name) <= LONGEST_DEVICE and self.name not in NO_DEVICE
        device = self.name if usable else "bridge"
        self.inner.add(device)
        self.ip_batch[:0] = [
            f"link add name {device} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {device} up",
        ]
        self.ip_batch += [
            f"link set {intf.name} master {device} up"
            for intf in self.intfList()
            if intf.name != "lo"
        ]

    def await_forwarding(self) -> None:
        """A port forwards only once the kernel has noticed that its cable is up."""
        give_up_s = time.monotonic() + FORWARDING_LIMIT_S
        while True:
            ports = json.loads(processes.run(["bridge", "-j", "link"], netns_pid=self.pid))
            waiting = [port["ifname"] for port in ports if port["state"] != "forwarding"]
            if not waiting:
                return
            if time.monotonic() > give_up_s:
                raise RunFailed(f"these ports of {self.name} never came up: {', '.join(waiting)}")
            time.sleep(0.01)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Nothing to undo: the bridge goes with its namespace."""


class BatchIntf(Intf):
    """An interface that its node will configure later."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}

    def delete(self) -> None:
        """Interfaces go with their namespaces."""


class BatchLink(Link):
    """A veth pair that the net will make later, together with all the others."""

    def __init__(self, node1: Node, node2: Node, **params: Any) -> None:
        super().__init__(node1, node2, **{**params, "intf": BatchIntf, "fast": True})

    def intfName(self, node: Node, n: int) -> str:
        """Each node has a namespace to itself: without its name, a device's is still the only."""
        name = f"{node.name}-eth{n}"
        return name if len(name) <= LONGEST_DEVICE else f"eth{n}"

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_params: Any) -> None:
        pass


class BatchMininet(Mininet):
    """Add nodes and links as usual, then `start`. `stop` is safe at any time."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            switch=BatchBridge,
            host=BatchHost,
            link=BatchLink,
            controller=None,
            build=False,
            autoSetMacs=True,
        )
        self._run_id = run_id

    def addHost(self, name: str, **params: Any) -> BatchHost:
        host: BatchHost = super().addHost(name, run_id=self._run_id, **params)
        return host

    def addSwitch(self, name: str, **params: Any) -> BatchNode:
        # Mininet would look for a number in the name, and stop without one. Nothing here reads it.
        number = f"{len(self.switches) + 1:x}"
        switch: BatchNode = super().addSwitch(name, dpid=number, run_id=self._run_id, **params)
        return switch

    @property
    def all_nodes(self) -> list[BatchNode]:
        return [*self.hosts, *self.switches]

    def start(self) -> None:
        self._side_by_side(BatchNode.await_shell)
        cables = [self._cable(link, index) for index, link in enumerate(self.links, FIRST_INDEX)]
        processes.run(["ip", "-batch", "-"], stdin="\n".join(cables) + "\n")
        for host in self.hosts:
            self._address(host)
        for switch in self.switches:
            switch.start([])
        self._side_by_side(lambda node: node.configure())
        for switch in self.switches:
            switch.await_forwarding()
        self.built = True

    @staticmethod
    def _cable(link: BatchLink, index: int) -> str:
        a, b = link.intf1, link.intf2
        return (
            f"link add name {a.name} index {index} netns {a.node.pid} type veth "
            f"peer name {b.name} netns {b.node.pid}"
        )

    def _address(self, host: BatchHost) -> None:
        """Lines before everything else the host is to be told: its address, its neighbours."""
        intf = host.defaultIntf()
        neighbours = host.neighbours or {
            peer.params["ip"].split("/")[0]: peer.params["mac"]
            for peer in self.hosts
            if peer is not host
        }
        intf.mac = host.params["mac"]
        intf.ip, intf.prefixLen = host.params["ip"].split("/")
        host.ip_batch[:0] = [
            "link set lo up",
            f"link set {intf.name} address {intf.mac} up",
            f"addr add {host.params['ip']} dev {intf.name} noprefixroute",
            *(
                f"neigh replace {address} lladdr {mac} dev {intf.name} nud permanent"
                for address, mac in neighbours.items()
            ),
        ]

    def _side_by_side(self, action: Callable[[BatchNode], None]) -> None:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(action, self.all_nodes))

    def stop(self) -> None:
        for node in self.all_nodes:
            node.hang_up()
        for node in self.all_nodes:
            try:
                node.shell.wait(timeout=SHELL_LIMIT_S)
            except subprocess.TimeoutExpired:
                continue
            node.terminate()
        for kind in (self.hosts, self.switches, self.links):
            kind.clear()
