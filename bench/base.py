"""What a benchmark is: a function that measures ratios, each held against a goal."""

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from basics.records import TABLES
from testbed.engine import Engine, Run
from testbed.realtime import engine as realtime
from testbed.run_folder import RunFolder
from testbed.spec import Experiment, load
from testbed.stacks import demand_stacks


@dataclass(frozen=True)
class Effort:
    """How much is measured. The tiny effort shows that a benchmark works, not how fast we are."""

    repeats: int = 3
    tiny: bool = False


@dataclass(frozen=True)
class Ratio:
    """One promise: what was measured in each repeat, and the goal that its median is held to."""

    name: str
    values: tuple[float, ...]  # empty: this machine cannot do it, and the note says why
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
    return f"bench-{token_hex(3)}"


@dataclass(frozen=True)
class Played:
    """What a run of an experiment left: its tables, and how much slower than real time it went."""

    tables: Mapping[str, pd.DataFrame]
    dilation: float
    steal_share: float  # of the processors' time, taken by other machines on the same hardware


def played(
    experiment: str,
    seed: int,
    files: Mapping[str, str] | None = None,
    engine: Engine = realtime,
) -> Played:
    """One run of an experiment (YAML text, and the files it names)."""
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        loaded = loaded_from(Path(name), experiment, files)
        engine.demand(loaded)
        demand_stacks(loaded)
        run = Run(loaded, loaded.policies[0], seed, run_id())
        setting = engine.settle(loaded, lambda line: None, run.run_id)
        folder = RunFolder(Path(name) / "run")
        engine.execute(run, folder, setting, lambda time_ns: None)
        tables = {table: pd.read_parquet(folder.path / f"{table}.parquet") for table in TABLES}
        manifest = json.loads((folder.path / "manifest.json").read_text())
        steal = manifest["fidelity"]["measured"]["cpu_steal_share"]
        return Played(tables, setting.wiring.dilation, steal)


def auto_dilation(experiment: str, files: Mapping[str, str] | None = None) -> float:
    """By how much `dilation: auto` slows this experiment down on this machine."""
    with TemporaryDirectory(prefix="giveway-bench-") as name:
        loaded = loaded_from(Path(name), experiment, files)
        return realtime.settle(loaded, lambda line: None, run_id()).wiring.dilation


def loaded_from(folder: Path, experiment: str, files: Mapping[str, str] | None) -> Experiment:
    path = folder / "experiment.yaml"
    for file, content in {path.name: experiment, **(files or {})}.items():
        (folder / file).write_text(content)
    return load(path)
