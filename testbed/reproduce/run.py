"""One entry from file to verdicts. Sweeps are kept and shared by all entries that use them."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from analysis import reproduction
from analysis.sweep import Grid
from analysis.sweep import load as load_grid
from analysis.views import Panel
from basics.errors import BadInput
from basics.files import write_whole
from testbed import engines
from testbed.progress import Progress
from testbed.reproduce import entry as entries
from testbed.reproduce import kept_results, views
from testbed.reproduce.entry import Entry
from testbed.reproduce.kept_results import Kept
from testbed.reproduce.verdicts import Verdict, judge
from testbed.spec import sweep_file
from testbed.spec.sweep_file import Sweep

PACKAGES = ("basics", "testbed", "topologies", "workloads", "policies")
NO_ENGINE = "none"


@dataclass(frozen=True)
class Reproduced:
    name: str
    entry: Entry
    engine: str
    folder: Path
    verdicts: list[Verdict] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)

    @property
    def broken(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.broken]

    @property
    def command(self) -> str:
        return f"giveway reproduce {self.name}"


def reproduce(
    name: str,
    out: Path,
    engine: str | None,
    progress: Callable[[int], Progress],
    *,
    beside: bool = False,
) -> Reproduced:
    """Run the entry, judge its numbers, and leave a page and verdicts.json in OUT/NAME."""
    entry = entries.load(name)
    chosen = engine or entry.engine
    if beside and entry.beside is None:
        raise BadInput(f"{name}: --beside: this entry names no points for another engine")
    if entry.compute is not None:
        if engine is not None:
            raise BadInput(f"{name}: --engine {engine}: this entry is computed, no engine runs")
        found = Reproduced(name, entry, NO_ENGINE, out / name, [], views.computed(entry))
    elif entry.kept and engine is None:
        own = kept_results.read(entries.path_of(name).parent / entry.kept)
        there = elsewhere(entry, name, out, progress, beside=beside)
        panel = views.side_by_side(entry, own, there) if there else views.alone(own)
        axes = {axis.name: tuple(axis.values) for axis in sweep_of(entry, name).axes}
        verdicts = judge(entry, own.table, axes)
        found = Reproduced(name, entry, own.engine, out / name, verdicts, [panel])
    else:
        other = entry.beside
        instead = other is not None and other.instead and engines.resolve(chosen) == other.engine
        grid = swept(entry, name, out, chosen, progress, beside=instead)
        axes = {axis.name: axis.labels for axis in grid.axes}
        panels = views.panels(entry, grid)
        if not instead and (there := elsewhere(entry, name, out, progress, beside=beside)):
            here = swept(entry, name, out, chosen, progress, beside=True)
            panels.append(views.side_by_side(entry, here, there))
        found = Reproduced(name, entry, chosen, out / name, judge(entry, grid.table, axes), panels)
        if instead and other is not None:
            theirs = kept_results.of(entry, grid, other.set)
            kept_results.write(theirs, found.folder / kept_results.OTHER)
            if entry.kept:
                own = kept_results.read(entries.path_of(name).parent / entry.kept)
                panels.append(views.side_by_side(entry, own, theirs))
        elif entry.kept:
            kept_results.write(
                kept_results.of(entry, grid, entry.set), found.folder / kept_results.OWN
            )
    leave(found)
    return found


def elsewhere(
    entry: Entry,
    name: str,
    out: Path,
    progress: Callable[[int], Progress],
    *,
    beside: bool,
) -> Kept | None:
    """What the other engine gives at the points that it can afford: now, or once and kept."""
    other = entry.beside
    if other is None:
        return None
    if beside:
        grid = swept(entry, name, out, other.engine, progress, beside=True)
        found = kept_results.of(entry, grid, other.set)
        kept_results.write(found, out / name / kept_results.OTHER)
        return found
    if not other.kept:
        return None
    return kept_results.read(entries.path_of(name).parent / other.kept)


def swept(
    entry: Entry,
    name: str,
    out: Path,
    engine: str,
    progress: Callable[[int], Progress],
    *,
    beside: bool = False,
) -> Grid:
    """The sweep of the entry, run now or kept from before."""
    from testbed.sweep import run_sweep  # Mininet, only where a run needs it

    engine = engines.resolve(engine)
    sweep = sweep_of(entry, name)
    if beside and entry.beside is not None:
        here = entry.beside.there_only and engine != entry.beside.engine
        more = () if here else entry.beside.set
        sweep = only(sweep_of(entry, name, more), entry.beside.points)
    mark = hashlib.sha256((sweep.fingerprint() + code()).encode()).hexdigest()[:8]
    at = out / "sweeps" / f"{sweep.first.name}-{engine}-{mark}"
    run_sweep(sweep, at, engine, f"giveway reproduce {name}", progress)
    return load_grid(at)


def sweep_of(entry: Entry, name: str, more: tuple[str, ...] = ()) -> Sweep:
    path = (entries.path_of(name).parent / str(entry.sweep)).resolve()
    return sweep_file.load(path, (*entry.set, *more))


def only(sweep: Sweep, places: tuple[dict[str, str], ...]) -> Sweep:
    """The sweep at some of its points."""
    chosen = tuple(point for point in sweep.points if dict(point.at) in places)
    if len(chosen) != len(places):
        raise BadInput(f"beside: points: {len(places)} named, {len(chosen)} are in the sweep")
    return replace(sweep, points=chosen)


@cache
def code() -> str:
    """Of all that makes records: results of other code are not kept."""
    root = Path(__file__).parent.parent.parent
    files = sorted(
        path
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.suffix in (".py", ".csv", ".config") and "reproduce" not in path.parts
    )
    whole = hashlib.sha256()
    for path in files:
        whole.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return whole.hexdigest()


def leave(found: Reproduced) -> None:
    found.folder.mkdir(parents=True, exist_ok=True)
    plain = [verdict.plain() for verdict in found.verdicts]
    write_whole(found.folder / "verdicts.json", json.dumps(plain, indent=1) + "\n")
    write_whole(
        found.folder / "report.html",
        reproduction.render(
            name=found.name,
            source=found.entry.source,
            shows=found.entry.shows,
            engine=found.engine,
            command=found.command,
            note=found.entry.note,
            rows=[words_of(verdict) for verdict in found.verdicts],
            panels=found.panels,
        ),
    )


HEADER = ("number", "published", "ours", "off by", "tolerance", "verdict")


def words_of(verdict: Verdict) -> tuple[str, ...]:
    """A verdict in the columns of HEADER."""
    target = verdict.target
    at = ", ".join(f"{axis} {label}" for axis, label in target.at.items())
    return (
        f"{target.what} ({at})" if at else target.what,
        reproduction.number(target.value, target.kind, target.unit),
        reproduction.number(verdict.ours, target.kind, target.unit),
        verdict.off_by,
        target.tolerance_text,
        verdict.status
        + ("" if target.holds or verdict.status == "reproduced" else ", as expected"),
    )
