"""The cells on which the two engines are compared, and how each engine plays one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import agreement
from analysis.folder import Results
from analysis.folder import load as load_results
from bench.base import run_id
from testbed import engines, folder
from testbed.engine import Run
from testbed.folder import RunFolder
from testbed.spec import Experiment, load

REPOSITORY = Path(__file__).parents[2]
REFERENCE = Path(__file__).with_name("reference.json")


@dataclass(frozen=True)
class Cell:
    name: str
    file: str
    settings: tuple[str, ...] = ()

    @property
    def experiment(self) -> Experiment:
        return load(REPOSITORY / self.file, self.settings).only((), (0,))

    @property
    def command(self) -> str:
        settings = "".join(f' --set "{setting}"' for setting in self.settings)
        return f"giveway run {self.file} --engine virtual --seed 0{settings}"


def _thesis(iteration_ms: int, arrivals: int) -> Cell:
    return Cell(
        f"thesis-{iteration_ms}-{arrivals}",
        "experiments/thesis-cell.yaml",
        (*_settings(iteration_ms, arrivals), "warmup=1 s", "cooldown=1 s"),
    )


def _quick(iteration_ms: int, arrivals: int) -> Cell:
    return Cell(
        f"quick-{iteration_ms}-{arrivals}",
        "experiments/quickstart.yaml",
        _settings(iteration_ms, arrivals),
    )


def _settings(iteration_ms: int, arrivals: int) -> tuple[str, ...]:
    return (
        f"training.0.iteration={iteration_ms} ms",
        f"flows.0.arrivals={arrivals} per second per host",
        "duration=6 s",
    )


CELLS = (
    _thesis(2240, 23),
    _thesis(1120, 46),
    _thesis(1120, 92),
    _thesis(560, 46),
    _thesis(560, 92),
    _thesis(2240, 184),
    _thesis(280, 23),
    _thesis(280, 184),
    _quick(960, 23),
    _quick(960, 92),
    _quick(480, 46),
    _quick(240, 46),
    _quick(480, 184),
    _quick(240, 184),
    Cell("replay", "experiments/replay.yaml"),
)


def played(cell: Cell, engine_name: str, out: Path, say: Callable[[str], None]) -> Results:
    """Play a cell into a folder; no report is written."""
    experiment, engine = cell.experiment, engines.get(engine_name)
    engine.demand(experiment)
    name = run_id()
    folder.create(out)
    setting = engine.settle(experiment, say, name)
    rates = [float(link.cable.rate_bps) for link in setting.topology.links for _ in "ab"]
    links = [
        {"link": link, "rate_bps": rate}
        for link, rate in zip(setting.topology.link_names, rates, strict=True)
    ]
    folder.write_atomically(out / "experiment.yaml", experiment.to_yaml())
    folder.write_json(out / "plan.json", experiment.plan(engine.NAME, cell.command, links))
    with engine.exclusive():
        for choice in experiment.policies:
            run = Run(experiment, choice, 0, name)
            engine.execute(run, RunFolder(out / choice.label / "seed-0"), setting, lambda _: None)
    return load_results(out)


def reference() -> dict[str, Any]:
    """What the virtual engine gave, by cell."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text())
    return found


def referenced(cell: Cell, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The reference of one cell, from a finished virtual run in `out` or from a new one."""
    if (out / "plan.json").exists():
        results = load_results(out)
        if load(out / "experiment.yaml").only((), (0,)).to_yaml() != cell.experiment.to_yaml():
            raise ValueError(f"{out}: holds another experiment than the cell {cell.name}")
    else:
        say(f"{cell.name}: running on the virtual engine, some minutes …")
        results = played(cell, "virtual", out, say)
    digests = {label: run.manifest["digest"] for (label, _), run in results.runs.items()}
    return {
        "command": cell.command,
        "digests": digests,
        "policies": agreement.measured(results),
    }
