"""What a benchmark is: a function that measures ratios, each held against a goal."""

import secrets
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import policies
import topologies
from testbed import realtime
from testbed.folder import RunFolder
from testbed.live import Played, Run, play
from testbed.network import Network, Wiring
from testbed.processes import Nursery
from testbed.spec import load


@dataclass(frozen=True)
class Effort:
    """How much is measured. The tiny effort shows that a benchmark works, not how fast we are."""

    repeats: int = 3
    tiny: bool = False


@dataclass(frozen=True)
class Ratio:
    """One promise: what was measured in each repeat, and the goal that its median is held to."""

    name: str
    values: tuple[float, ...]  # empty: not applicable here, and the note says why
    goal: float
    bound: str = "at least"  # or "at most"
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def met(self) -> bool | None:
        """None where it does not apply to this machine."""
        if self.median is None:
            return None
        return self.median >= self.goal if self.bound == "at least" else self.median <= self.goal

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median, "met": self.met}


Measure = Callable[[Effort], list[Ratio]]


def run_id() -> str:
    return f"bench-{secrets.token_hex(3)}"


@contextmanager
def rack(hosts: int, rate_bps: int) -> Iterator[tuple[Network, Nursery, Path]]:
    """A live rack under fifo in real time, a nursery for its tasks, and a folder for their logs."""
    topology = topologies.available()["tor"](hosts, topologies.Cable(rate_bps, 0, 1000))
    name = run_id()
    with (
        TemporaryDirectory(prefix="giveway-bench-") as folder,
        Network(topology, policies.available()["fifo"], Wiring(), run_id=name) as network,
        Nursery(name, Path(folder) / "nursery.log") as nursery,
    ):
        yield network, nursery, Path(folder)


@dataclass(frozen=True)
class Outcome:
    """What one run of an experiment left, and how it was slowed down."""

    played: Played
    dilation: float


def played(experiment: str, seed: int, **files: str) -> Outcome:
    """Play an experiment (YAML text, with the files it names) once, as the realtime engine does."""
    with TemporaryDirectory(prefix="giveway-bench-") as folder:
        path = Path(folder) / "experiment.yaml"
        path.write_text(experiment)
        for name, content in files.items():
            path.with_name(f"{name}.csv").write_text(content)
        loaded = load(path)
        realtime.demand(loaded)
        run = Run(loaded, loaded.policies[0], seed, run_id())
        setting = realtime.settle(loaded, lambda line: None, run.run_id)
        run_folder = RunFolder(path.with_name("run"))
        policy = run.choice.link_policy
        with (
            Network(setting.topology, policy, setting.wiring, run_id=run.run_id) as network,
            Nursery(run.run_id, run_folder.logs / "nursery.log") as nursery,
        ):
            found = play(run, network, nursery, run_folder, lambda time_ns: None)
        return Outcome(found, setting.wiring.dilation)
