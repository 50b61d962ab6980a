"""How each engine plays a cell, and what is kept of the virtual engine's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis import agreement
from analysis.folder import Results
from analysis.folder import load as load_results
from basics.files import write_json, write_whole
from bench.agreement.cells import Cell
from bench.base import run_id
from testbed import engines
from testbed.engine import Run
from testbed.run_folder import RunFolder, create
from testbed.spec import load

REFERENCE = Path(__file__).with_name("reference.json")
# What of the virtual engine changed its results last; references that do not name it are older.
LAST_CHANGE = "neutral receivers, netem without losses of its own"


def played(cell: Cell, engine_name: str, out: Path, say: Callable[[str], None]) -> Results:
    """Play a cell into a folder; no report is written."""
    experiment, engine = cell.experiment, engines.get(engine_name)
    engine.demand(experiment)
    name = run_id()
    create(out)
    setting = engine.settle(experiment, say, name)
    rates = [float(link.cable.rate_bps) for link in setting.topology.links for _ in "ab"]
    links = [
        {"link": link, "rate_bps": rate}
        for link, rate in zip(setting.topology.link_names, rates, strict=True)
    ]
    write_whole(out / "experiment.yaml", experiment.to_yaml())
    write_json(out / "plan.json", experiment.plan(engine.NAME, cell.command, links))
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
        "after": LAST_CHANGE,
        "digests": digests,
        "policies": agreement.measured(results),
    }
