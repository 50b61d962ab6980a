"""The realtime engine: Mininet on this machine's kernel, dilated where the machine is too slow.

Only one realtime run at a time on a machine: two would be each other's disturbance.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from basics.errors import CannotRun
from testbed import machine, stacks
from testbed.containers import docker_engine, image
from testbed.engine import (
    Performance,
    Run,
    Setting,
    Wiring,
    demand_features,
    topology_of,
)
from testbed.live import limits, transport
from testbed.live.play import perform
from testbed.realtime import capacity
from testbed.run_folder import RunFolder
from testbed.sealing import sealed
from testbed.spec import Experiment
from testbed.spec.hosts import DOCKER, ContainerSpec

NAME = "realtime"
IN_PROCESSES = False
LOCK = Path("/run/giveway-realtime.lock")  # its lock is gone with its process, even by kill -9
TURN_S = 0.2  # between two looks whether it is our turn
TIMER_SLACK_NS = 200_000


@contextmanager
def exclusive(wait_s: float = 0) -> Iterator[None]:
    """Held while a run goes on: at most one on a machine. Waits this long for its turn."""
    give_up_s = time.monotonic() + wait_s
    with open(lock_file(), "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_s:
                    raise CannotRun(
                        "another realtime run is using this machine, and two at once would "
                        "disturb each other: wait until it has ended, or let `--wait` do it"
                    ) from None
                time.sleep(TURN_S)
        yield


def lock_file() -> int:
    """A descriptor of the lock's file; nobody but root can open it, so nobody else can hold it."""
    try:
        found = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(found, 0o600)
    except OSError as error:
        raise CannotRun(f"{LOCK} cannot be opened: {error.strerror}") from None
    return found


def parallel(experiment: Experiment) -> int:
    return 1


def cancel() -> None:
    """Nothing to do: runs go on in the main thread, one at a time."""


def demand(experiment: Experiment) -> None:
    """Refuse what this machine's kernel cannot do, before anything is started."""
    here = machine.demand_realtime()
    delay = experiment.topology.delay
    if delay.strict and delay.ns and "netem" not in here.features:
        raise CannotRun(
            f"a delay of exactly {delay} needs the netem qdisc, which this kernel "
            f"({machine.kernel()}) lacks: write `delay: about {delay}` to take what the machine "
            f"has, or use a kernel with netem"
        )
    if experiment.hosts == DOCKER:
        docker_engine.demand_image(stacks.image_of(experiment))
    limits.demand_room(experiment)
    demand_features(experiment, here.features, here.tcp, f"this kernel ({machine.kernel()})")
    if experiment.dilation != "auto":
        demand_timers(wiring_of(experiment, float(experiment.dilation)))


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    offload = experiment.offload is not False
    capacity_bps = None
    if experiment.dilation == "auto":
        capacity_bps = capacity.measured(offload, experiment.topology.rate_bps, say, run_id)
        links = topology_of(experiment).links
        links_bps = sum(link.cable.rate_bps for link in links)
        dilation = capacity.dilation(links_bps, capacity_bps)
        say(
            f"{len(links)} links of {links_bps / 1e9:g} Gbit/s in all on a machine that carries "
            f"{capacity_bps / 1e9:.1f} Gbit/s: "
            + (f"time runs {dilation:g} times slower" if dilation > 1 else "no need to slow down")
        )
    else:
        dilation = float(experiment.dilation)
    wiring = wiring_of(experiment, dilation)
    demand_timers(wiring)
    return Setting(topology_of(experiment), wiring, capacity_bps)


def wiring_of(experiment: Experiment, dilation: float) -> Wiring:
    return Wiring(
        dilation=dilation,
        offload=experiment.offload is not False,
        netem="netem" in machine.probe().features,
        tcp=experiment.tcp,
        window_byte=experiment.transport.window_byte,
        rto_min_ns=experiment.transport.rto_min_ns,
        timer_slack_ns=TIMER_SLACK_NS,
    )


def demand_timers(wiring: Wiring) -> None:
    transport.demand_timers(wiring, transport.tick_ns(), f"this kernel ({machine.kernel()})")


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    """Build, check, play, seal; the network is gone afterwards, whatever happened."""

    def play() -> Performance:
        return perform(run, setting, folder, on_time, measure_link=True)

    sealed(run, folder, setting, NAME, play, **hosts_of(run.experiment))


def hosts_of(experiment: Experiment) -> dict[str, Any]:
    """What the manifest says about the hosts."""
    if experiment.hosts != DOCKER:
        return {"hosts": experiment.hosts}
    bounds = experiment.container or ContainerSpec()
    of_hosts = stacks.image_of(experiment)
    image_id = docker_engine.demand_image(of_hosts)
    return {
        "hosts": experiment.hosts,
        "container": {
            "image": of_hosts.name,
            "image_id": image_id,
            "image_inputs": image.digest(of_hosts),
            "image_versions": docker_engine.versions_inside(image_id),
            "docker": docker_engine.demand_engine().version,
            "cpus": bounds.cpus,
            "memory_byte": bounds.memory_byte,
        },
    }
