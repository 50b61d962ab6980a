"""What every engine shares: a run, and the setting that it is played in.

An engine is a module with the functions of `Engine`. `execute` is what it is for.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from basics.errors import CannotRun
from policies.link import Demotion, LinkPolicy
from testbed.live import kernel_marks, tc
from testbed.run_folder import RunFolder
from testbed.spec import Experiment, FlowMix, PolicyChoice
from testbed.spec.hosts import NAMESPACES
from testbed.spec.placements import PlacementChoice
from topologies import Topology

FAR_END = "169.254.0.1"  # link-local: the other end of whatever cable it is used on
KERNEL_MARKS = tc.NFT  # the feature of one that can mark what any program sends
MULTIPATH = "multipath"  # the feature of a kernel whose routers share flows out over several ways


@dataclass(frozen=True)
class Run:
    """One policy and one seed of an experiment."""

    experiment: Experiment
    choice: PolicyChoice
    seed: int
    run_id: str
    placement: PlacementChoice | None = None  # where there is a cluster
    captures: tuple[str, ...] = ()  # links whose packets are kept

    @property
    def bands(self) -> dict[str, str]:
        return self.experiment.bands(self.choice)

    def steers(self, job: str) -> bool:
        """Whether the policy moves this job between bands; a band from the file is left alone."""
        return self.choice.link_policy.steering is not None and job not in self.choice.bands

    def demotions(self, mix: FlowMix) -> tuple[Demotion, ...]:
        """When the flows of a mix change their band."""
        return self.choice.link_policy.demotions_from(self.bands[mix.name], mix.scale)

    def senders_demotions(self, mix: FlowMix) -> tuple[Demotion, ...]:
        """Those that senders on a live network mark; none, if their hosts' kernels do."""
        return () if self.choice.link_policy.kernel_marks else self.demotions(mix)


@dataclass(frozen=True)
class Wiring:
    """How the ports of a network are set up, besides the topology and the policy."""

    dilation: float = 1.0
    offload: bool = True
    netem: bool = False  # whether the asked delay is applied
    tcp: str = "cubic"
    window_byte: int | None = None  # none: the kernel's autotuning
    rto_min_ns: int | None = None  # in experiment time; none: the kernel's own
    timer_slack_ns: int = 200_000  # 0: the clock is exact


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
    simulated: bool = False  # calculated, not played
    cautions: list[str] = field(default_factory=list)  # why a simulation may be far off
    lost: list[str] = field(default_factory=list)  # tasks that died and were allowed to
    states: dict[str, str] = field(default_factory=dict)  # SHA-256 of a real job's, when it is done


class Engine(Protocol):
    """What the module of an engine has."""

    NAME: str
    __name__: str  # of the module: a helper process imports it
    IN_PROCESSES: bool  # it computes in Python, so that runs at once need a process each

    def demand(self, experiment: Experiment) -> None:
        """Raise CannotRun if this machine cannot do it; nothing has been started."""

    def exclusive(self, wait_s: float = 0) -> AbstractContextManager[None]:
        """Held while runs go on; waits, then refuses, if another one would be disturbed."""

    def parallel(self, experiment: Experiment) -> int:
        """How many runs may go on at once without changing a result."""

    def settle(self, experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
        """Decide how all runs of the experiment are played."""

    def execute(
        self, run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]
    ) -> None:
        """Play one run and seal its folder."""

    def cancel(self) -> None:
        """End the runs of other threads, soon."""


def capture_file(link: str) -> str:
    """What a link's packets are called in the folder of a run."""
    return f"{link.replace('->', '-')}.pcap"


def topology_of(experiment: Experiment) -> Topology:
    return experiment.topology.graph


def lacking(policy: LinkPolicy, features: frozenset[str]) -> frozenset[str]:
    """What a kernel would have to have besides for a policy."""
    return tc.needs(policy) - features


def no_kernel_marks(features: frozenset[str], kernel: str) -> str | None:
    """Why kernels of hosts cannot mark here; nothing, if they can."""
    return kernel_marks.refusal(features, kernel)


def demand_live_cluster(experiment: Experiment) -> None:
    """Refuse what daemons cannot do."""
    cluster = experiment.cluster
    if cluster is None:
        return
    if experiment.hosts != NAMESPACES:
        raise CannotRun(f"cluster: its daemons live in namespaces, not in {experiment.hosts} hosts")
    for fault in packs_beside_cores(experiment):
        raise CannotRun(fault)
    for index, choice in enumerate(experiment.policies):
        if choice.link_policy.tells_jobs_apart:
            raise CannotRun(told_apart_in_a_cluster(index, choice))


def packs_beside_cores(experiment: Experiment) -> Iterator[str]:
    """Two answers to what a worker computes on."""
    for index, placement in enumerate(experiment.placements):
        if placement.scheduler.pack > 1 and experiment.topology.cores is not None:
            yield (
                f"placements.{index}: pack: {placement.scheduler.pack} shares GPUs, and "
                "topology.cores says what workers compute on already: leave one of them out"
            )


def told_apart_in_a_cluster(index: int, choice: PolicyChoice) -> str:
    """Why a policy that would have to know a cluster's jobs beforehand is refused."""
    return (
        f"policies.{index}: {choice.policy} tells jobs apart at ports, and those of a cluster come "
        "and move: take another policy, or start them under training:"
    )


def demand_features(
    experiment: Experiment, features: frozenset[str], tcp: frozenset[str], kernel: str
) -> None:
    """Refuse a topology, a policy or a TCP that this kernel does not have."""
    demand_live_cluster(experiment)
    if topology_of(experiment).routed and MULTIPATH not in features:
        raise CannotRun(
            f"topology {experiment.topology.kind} has several ways between two hosts, and {kernel} "
            "cannot share flows out over them (Linux 6.11 and newer can, if built with "
            "IP_ROUTE_MULTIPATH): `giveway doctor` shows what each engine has"
        )
    if experiment.tcp not in tcp:
        raise CannotRun(
            f"{kernel} has no TCP congestion control {experiment.tcp}: it has "
            f"{', '.join(sorted(tcp))}"
        )
    if experiment.tcp == "dctcp" and "codel" not in features:
        raise CannotRun(f"tcp: dctcp needs the codel qdisc to mark packets, which {kernel} lacks")
    kernel_marks.demand(experiment, features, kernel)
    for choice in experiment.policies:
        missing = lacking(choice.link_policy, features)
        if missing:
            raise CannotRun(
                f"the policy {choice.policy} needs {', '.join(sorted(missing))}, which {kernel} "
                "lacks: `giveway doctor` shows what each engine has"
            )
