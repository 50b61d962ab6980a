"""What every engine shares: a run, and the setting that it is played in.

An engine is a module with three functions: `demand` refuses what it cannot do before anything is
started, `settle` decides how all runs of an experiment are played, `execute` plays one run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import topologies
from testbed.folder import RunFolder
from testbed.spec import Experiment, PolicyChoice
from topologies import Topology


@dataclass(frozen=True)
class Run:
    """One policy and one seed of an experiment."""

    experiment: Experiment
    choice: PolicyChoice
    seed: int
    run_id: str

    @property
    def bands(self) -> dict[str, str]:
        return self.experiment.bands(self.choice)


@dataclass(frozen=True)
class Wiring:
    """How the ports of a network are set up, besides the topology and the policy."""

    dilation: float = 1.0
    offload: bool = True
    netem: bool = False  # whether the asked delay is applied
    tcp: str = "cubic"
    timer_slack_ns: int = 200_000


@dataclass(frozen=True)
class Setting:
    """How all runs of an experiment are played."""

    topology: Topology
    wiring: Wiring
    capacity_bps: float | None = None  # what the machine carries, where that was measured


@dataclass(frozen=True)
class Performance:
    """What a run says of itself besides its records: its network, and how well it was played."""

    network: dict[str, Any]
    measured: dict[str, float | None]


class Engine(Protocol):
    NAME: str

    def demand(self, experiment: Experiment) -> None: ...

    def settle(
        self, experiment: Experiment, say: Callable[[str], None], run_id: str
    ) -> Setting: ...

    def execute(
        self, run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]
    ) -> None: ...


def topology_of(experiment: Experiment) -> Topology:
    asked = experiment.topology
    cable = topologies.Cable(asked.rate_bps, asked.delay.ns, asked.queue_packets)
    return topologies.available()[asked.kind](asked.hosts, cable)
