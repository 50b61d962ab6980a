"""The realtime engine: Mininet on this machine's kernel, dilated where the machine is too slow.

Only one realtime run at a time on a machine: two would be each other's disturbance.
"""

import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import topologies
from testbed import capacity, machine
from testbed.errors import CannotRun
from testbed.fidelity import verdict
from testbed.folder import RunFolder, now
from testbed.iperf import HEADER_LIMIT, goodput_bps
from testbed.live import Run, play
from testbed.network import Network, Wiring
from testbed.processes import Nursery
from testbed.spec import Experiment
from topologies import Topology

LOCK_NAME = "\0giveway-realtime"  # an abstract socket: gone with its process, even by kill -9
TIMER_SLACK_NS = 200_000


@contextmanager
def exclusive() -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(LOCK_NAME)
        except OSError:
            raise CannotRun(
                "another realtime run is using this machine, and two at once would disturb each "
                "other: wait until it has ended"
            ) from None
        yield


def topology_of(experiment: Experiment) -> Topology:
    asked = experiment.topology
    cable = topologies.Cable(asked.rate_bps, asked.delay.ns, asked.queue_packets)
    return topologies.available()[asked.kind](asked.hosts, cable)


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
    if experiment.tcp not in here.tcp:
        raise CannotRun(
            f"this kernel has no TCP congestion control {experiment.tcp}: it has "
            f"{', '.join(sorted(here.tcp))}"
        )
    for choice in experiment.policies:
        lacking = choice.link_policy.needs - here.features
        if lacking:
            raise CannotRun(
                f"the policy {choice.policy} needs {', '.join(sorted(lacking))}, which this kernel "
                f"({machine.kernel()}) lacks: `giveway doctor` shows what it has"
            )


@dataclass(frozen=True)
class Setting:
    """How all runs of an experiment are played on this machine."""

    topology: Topology
    wiring: Wiring
    capacity_bps: float | None  # None: the file fixes the dilation


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    offload = experiment.offload is not False
    capacity_bps = None
    if experiment.dilation == "auto":
        capacity_bps = capacity.measured(offload, say, run_id)
        asked = experiment.topology
        dilation = capacity.dilation(asked.hosts, asked.rate_bps, capacity_bps)
        say(
            f"{asked.hosts} links of {asked.rate_bps / 1e9:g} Gbit/s on a machine that carries "
            f"{capacity_bps / 1e9:.1f} Gbit/s: "
            + (f"time runs {dilation:g} times slower" if dilation > 1 else "no need to slow down")
        )
    else:
        dilation = float(experiment.dilation)
    wiring = Wiring(
        dilation=dilation,
        offload=offload,
        netem="netem" in machine.probe().features,
        tcp=experiment.tcp,
        timer_slack_ns=TIMER_SLACK_NS,
    )
    return Setting(topology_of(experiment), wiring, capacity_bps)


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    """Build, check, play, seal; the network is gone afterwards, whatever happened."""
    manifest = {
        "engine": "realtime",
        "policy": run.choice.policy,
        "label": run.choice.label,
        "seed": run.seed,
        "run_id": run.run_id,
        "dilation": setting.wiring.dilation,
        "capacity_bps": setting.capacity_bps,
        "versions": machine.versions(),
        "kernel": machine.kernel(),
        "processor": platform.processor() or platform.machine(),
        "started": now(),
        "bands": run.bands,
    }
    try:
        with (
            Network(
                setting.topology, run.choice.link_policy, setting.wiring, run_id=run.run_id
            ) as network,
            Nursery(run.run_id, folder.logs / "nursery.log") as nursery,
        ):
            manifest["network"] = described(run, network)
            ratio = shaped_rate_ratio(network, nursery, folder)
            played = play(run, network, nursery, folder, on_time)
        measured = {"shaped_rate_ratio": ratio, **played.measured}
        found, reasons = verdict(measured)
        manifest["fidelity"] = {"verdict": found, "reasons": reasons, "measured": measured}
        folder.seal(played.tables, {**manifest, "finished": now()})
    except BaseException as error:
        folder.fail(manifest, str(error) or type(error).__name__)
        raise


def described(run: Run, network: Network) -> dict[str, object]:
    delay = run.experiment.topology.delay
    first, second, *_ = network.topology.hosts
    return {
        "tcp": network.wiring.tcp,
        "offload": network.wiring.offload,
        "delay_asked_ns": delay.ns,
        "delay_strict": delay.strict,
        "netem": network.wiring.netem,
        "idle_rtt_ns": network.idle_rtt_ns(first, second),
        "ports": [
            {"link": link, "asked_bps": asked, "read_bps": read}
            for link, asked, read in network.asked_and_read_bps()
        ],
    }


def shaped_rate_ratio(network: Network, nursery: Nursery, folder: RunFolder) -> float:
    """What one link carries, over what its rate allows after headers."""
    first, second, *_ = network.topology.hosts
    [achieved_bps] = goodput_bps(network, nursery, [(first, second)], folder.logs)
    return round(achieved_bps / (network.ports[0].port.rate_bps * HEADER_LIMIT), 4)
