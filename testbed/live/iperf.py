"""iperf3 as tasks: a server that takes one test, a client that says what it measured.

Uses the `iperf3` package (libiperf in this process), so a measurement starts as fast as any other
task and runs in its host's namespace.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import iperf3

from testbed.live.crew import Crew
from testbed.live.network import Network
from testbed.processes import Nursery
from workloads.control import Control
from workloads.sockets import TaskError

PORT = 5201
RETRIES, RETRY_S = 40, 0.05  # libiperf does not say when its server listens
# Ethernet, IP and TCP with timestamps: payload of a full frame over its bytes as tc counts them.
HEADER_LIMIT = 1448 / 1514


def serve(config: dict[str, Any], control: Control) -> None:
    server = iperf3.Server()
    server.bind_address = config["address"]
    server.port = PORT
    server.verbose = False
    control.say("ready")  # libiperf listens in run(); the client tries again until it does
    result = server.run()
    control.say("done", error=getattr(result, "error", None))
    control.hear()


def measure(config: dict[str, Any], control: Control) -> None:
    control.say("ready")
    control.hear()
    result = None
    for _ in range(RETRIES):
        client = iperf3.Client()
        client.server_hostname = config["server"]
        client.port = PORT
        client.duration = config["duration_s"]
        client.verbose = False
        result = client.run()
        if not result.error:
            break
        time.sleep(RETRY_S)
    if result is None or result.error:
        raise TaskError(f"iperf3 to {config['server']}: {result and result.error}")
    control.say("done", received_bps=result.received_bps)
    control.hear()


def goodput_bps(
    network: Network,
    nursery: Nursery,
    pairs: Sequence[tuple[str, str]],
    logs: Path,
    duration_s: int = 1,
) -> list[float]:
    """What each (sender, receiver) pair achieves at the same time, in real bit/s."""
    servers = [
        nursery.start(
            "testbed.live.iperf:serve",
            {"address": network.address(receiver)},
            name=f"iperf3 server on {receiver}",
            log=logs / f"iperf3-server-{receiver}.log",
            netns_pid=network.pid(receiver),
        )
        for _, receiver in pairs
    ]
    clients = [
        nursery.start(
            "testbed.live.iperf:measure",
            {"server": network.address(receiver), "duration_s": duration_s},
            name=f"iperf3 client on {sender}",
            log=logs / f"iperf3-client-{sender}.log",
            netns_pid=network.pid(sender),
        )
        for sender, receiver in pairs
    ]
    crew = Crew(nursery, [*servers, *clients])
    crew.await_all("ready")
    for client in clients:
        client.tell(go=True)
    crew.await_all("done")
    crew.dismiss()
    return [float(client.said["done"]["received_bps"]) for client in clients]
