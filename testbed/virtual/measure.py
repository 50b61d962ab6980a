"""Runs inside the guest for check.py: measures its clock and one link, to the nanosecond.

Two namespaces and a veth pair; each end has a delay line (netem) and behind it a shaper (tbf).
Every duration printed is of the virtual clock. Standard library only, run by its path.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time

RATE = 10_000_000_000
DELAY_NS = 10_000
FRAME_BYTE = 1514
PAYLOAD_BYTE = 1448
BULK_BYTE = 32 * 2**20
PORT = 9
# The measurement starts at this instant of the guest's clock, whatever came before it took:
# times must not depend on how often a start-up script looked at the clock.
START_NS = 1_100 * 10**9


def main() -> None:
    before = time.monotonic_ns()
    time.sleep(1000)
    slept_ns = time.monotonic_ns() - before
    _build()
    reading, writing = os.pipe()
    receiver = os.fork()
    if receiver == 0:
        os.write(writing, json.dumps(_receive()).encode())
        os._exit(0)
    rtt_ns = _send()
    os.waitpid(receiver, 0)
    bulk = json.loads(os.read(reading, 65536))
    with open(sys.argv[1], "w") as file:
        json.dump({"slept_ns": slept_ns, "rtt_ns": rtt_ns, **bulk}, file)


def _build() -> None:
    lines = ["ip netns add a", "ip netns add b"]
    lines += ["ip link add v netns a address 02:00:00:00:00:01 type veth "
              "peer name v netns b address 02:00:00:00:00:02"]  # fmt: skip
    for number, name in enumerate("ab", start=1):
        inside = f"ip netns exec {name}"
        lines += [
            f"{inside} ethtool -K v tso off gso off gro off > /dev/null",
            # TCP makes bundles of packets even so, unless a bundle is one packet.
            f"ip -n {name} link set v gso_max_segs 1 up",
            f"ip -n {name} addr add 10.0.0.{number}/24 dev v",
            f"{inside} tc qdisc add dev v root handle 1: "
            f"netem delay {DELAY_NS // 1000}us limit 9999",
            f"{inside} tc qdisc add dev v parent 1: handle 2: tbf rate {RATE}bit "
            f"burst {2 * FRAME_BYTE} limit 9999999",
            f"{inside} tc qdisc add dev v parent 2: handle 3: pfifo limit 1000",
            f"ip -n {name} neigh replace 10.0.0.{3 - number} lladdr 02:00:00:00:00:0{3 - number} "
            "dev v nud permanent",
        ]
    subprocess.run(["sh", "-ec", "\n".join(lines)], check=True)


def _enter(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}") as file:
        if libc.setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {name}")


def _receive() -> dict[str, float]:
    _enter("b")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo,
        socket.create_server(("10.0.0.2", PORT)) as listener,
    ):
        echo.bind(("10.0.0.2", PORT))
        data, sender = echo.recvfrom(64)
        echo.sendto(data, sender)
        connection, _ = listener.accept()
        with connection:
            arrivals = []
            total = 0
            while data := connection.recv(2**20):
                total += len(data)
                arrivals.append((time.monotonic_ns(), total))
    # The second half: by then the window is open.
    first = next(point for point in arrivals if point[1] > total / 2)
    last = arrivals[-1]
    goodput = (last[1] - first[1]) * 8e9 / (last[0] - first[0])
    return {"goodput_bit_s": goodput, "first_ns": first[0], "last_ns": last[0], "total": total}


def _send() -> int:
    _enter("a")
    time.sleep((START_NS - time.monotonic_ns()) / 1e9)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        before = time.monotonic_ns()
        echo.sendto(b"x", ("10.0.0.2", PORT))
        echo.recv(64)
        rtt_ns = time.monotonic_ns() - before
    with socket.create_connection(("10.0.0.2", PORT)) as bulk:
        bulk.sendall(bytes(BULK_BYTE))
    return rtt_ns


if __name__ == "__main__":
    main()
