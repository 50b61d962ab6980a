"""Shows that a run's network ends at its own cables: what could lead outside is looked for.

Every run with Docker hosts is checked before it plays; `giveway doctor` and the tests use the same
eyes.
"""

import json

from basics.errors import RunFailed
from testbed import processes
from testbed.containers import docker_engine
from testbed.engine import FAR_END

OUTSIDE = "192.0.2.1"  # nobody's: an address for documentation (RFC 5737)

# What a fresh container sees, told by its own Python.
_LOOK = f"""
import json, os, socket
with socket.socket() as probe:
    probe.settimeout(1)
    reached = probe.connect_ex(("{OUTSIDE}", 9))
routes = open("/proc/net/route").read().splitlines()[1:]
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(json.dumps({{"interfaces": os.listdir("/sys/class/net"), "routes": len(routes),
    "unreachable": os.strerror(reached), "user": os.getuid(),
    "capabilities": int(status["CapBnd"], 16)}}))
"""


def ways_out(pid: int, own: set[str]) -> list[str]:
    """Interfaces and routes of a process's network that are not the run's own."""
    links = json.loads(processes.run(["ip", "-j", "link"], netns_pid=pid))
    routes = json.loads(processes.run(["ip", "-j", "route"], netns_pid=pid))
    strange = [link["ifname"] for link in links if link["ifname"] not in own | {"lo"}]
    found = [f"the interface {name}" for name in strange]
    for route in routes:
        hops = route.get("nexthops", [route])
        inside = all(
            hop.get("gateway", FAR_END) == FAR_END and hop.get("dev") in own for hop in hops
        )
        if route["dst"] == "default" or not inside:
            found.append(f"a route to {route['dst']}")
    try:
        processes.run(["ip", "route", "get", OUTSIDE], netns_pid=pid)
        found.append(f"a way to {OUTSIDE}")
    except RunFailed:
        pass  # unreachable, as it should be
    return found


def look_from_inside(image_id: str) -> list[str]:
    """Start a container as a run does and let it look round; what is not as it should be."""
    seen = json.loads(docker_engine.python_inside(image_id, _LOOK))
    found = [f"the interface {name}" for name in seen["interfaces"] if name != "lo"]
    if seen["routes"]:
        found.append(f"{seen['routes']} routes")
    if seen["unreachable"] != "Network is unreachable":
        found.append(f"an answer from outside: {seen['unreachable']}")
    if seen["capabilities"]:
        found.append(f"capabilities {seen['capabilities']:#x}")
    if seen["user"] == 0:
        found.append("root as its user")
    return found
