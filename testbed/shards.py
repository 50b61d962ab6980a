"""A sweep in shards, for job arrays and CI matrices: each machine has some of its points.

A shard is a folder of the same sweep in which only every n-th point is run. `join` puts the folders
together: every run is copied once, under the digests that it was sealed with, and what is wanting
is named.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from basics.errors import BadInput, RunFailed
from basics.files import writing
from testbed import identity
from testbed.engine import Run
from testbed.run import in_turns
from testbed.sealing import trouble
from testbed.spec import sweep_file
from testbed.spec.sweep_file import Point, Sweep
from testbed.sweep_folder import begin, claimed, is_described, read_plan, run_folder, take_stock

MOST_NAMED = 5
JOINED = "joined"  # no run of ours: these were played elsewhere
BESIDE = ".joining"  # a run that is being copied has this name until it is whole


@dataclass(frozen=True)
class Shard:
    number: int  # from 1
    of: int

    @staticmethod
    def read(text: str) -> "Shard":
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise BadInput(f"--shard {text}: write which of how many, like 3/16")
        return Shard(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def suffix(self) -> str:
        return f"-shard-{self.number}-of-{self.of}"

    def part_of(self, sweep: Sweep) -> Sweep:
        """Every n-th point: neighbours take about as long, so shards do too."""
        if self.of > len(sweep.points):
            raise BadInput(
                f"--shard {self}: the sweep has {len(sweep.points)} points, and a point is not "
                f"divided: at most --shard {self.number}/{len(sweep.points)}"
            )
        return replace(sweep, points=sweep.points[self.number - 1 :: self.of])


@dataclass(frozen=True)
class _Found:
    """A run in one of the folders, as its manifest tells of it."""

    folder: Path
    path: Path
    digest: str


def common(folders: Sequence[Path]) -> tuple[Sweep, str]:
    """The sweep that all folders are of, and its engine; refuses folders that are not of one."""
    plans = [(folder, read_plan(folder)) for folder in folders]
    first_folder, first = plans[0]
    sweep = sweep_file.load(first_folder / "experiment.yaml", any_size=True)
    if sweep.fingerprint() != first["fingerprint"]:
        raise BadInput(
            f"{first_folder / 'experiment.yaml'}: not what {first_folder / 'sweep.json'} is of; a "
            "schedule that it replays may have changed"
        )
    for folder, plan in plans[1:]:
        if plan["fingerprint"] != first["fingerprint"]:
            raise BadInput(f"{folder}: holds another experiment than {first_folder}")
        if plan["engine"] != first["engine"]:
            raise BadInput(
                f"{folder}: holds a sweep on the engine {plan['engine']}, {first_folder} one on "
                f"{first['engine']}"
            )
        wrong = identity.difference(first.get("made_by", {}), plan.get("made_by", {}))
        if wrong:
            raise BadInput(f"{folder}: made by another Giveway than {first_folder}: {wrong}")
    return sweep, str(first["engine"])


def join(
    sweep: Sweep,
    engine: str,
    folders: Sequence[Path],
    out: Path,
    command: str,
    say: Callable[[str], None],
) -> None:
    """Copy what the folders have into one; raises RunFailed if that is not the whole sweep."""
    if out.resolve() in {folder.resolve() for folder in folders}:
        raise BadInput(f"--out {out}: is one of the folders to join; choose another")
    candidates = list(_candidates(sweep, folders))  # two runs of one kind are refused here
    with claimed(out):
        begin(sweep, out, engine, command)
        wanting = {
            run_folder(Path(point), run)
            for point, runs in take_stock(sweep, out, engine, JOINED).wanting.items()
            for run in runs
        }
        for point, run, found in candidates:
            name = run_folder(Path(point.folder), run)
            if name in wanting and _copied(point, run, found, out, engine, say):
                wanting.remove(name)
    twice = sum(len(found) > 1 for *_, found in candidates)
    without = {name.parts[0] for name in wanting}
    missing = [point for point in sweep.points if point.folder in without]
    if twice:
        say(f"{twice} runs are in more than one folder, with the same records: counted once")
    if missing:
        names = "; ".join(point.name for point in missing[:MOST_NAMED])
        more = f"; and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise RunFailed(
            f"{out}: runs are missing at {len(missing)} of {len(sweep.points)} points: {names}"
            f"{more}; join again with the folders that have them, or let `giveway sweep "
            f"{out / 'experiment.yaml'} --engine {engine} --out {out}` run them"
        )


def _candidates(sweep: Sweep, folders: Sequence[Path]) -> Iterator[tuple[Point, Run, list[_Found]]]:
    """For each run of the sweep, where it is finished; twice, but not the same, is refused."""
    for point in sweep.points:
        for run in in_turns(point.experiment, JOINED):
            found = []
            for folder in folders:
                at = folder / "points" / point.folder
                path = run_folder(at, run)
                manifest = _manifest(path)
                if manifest.get("status") == "finished" and is_described(point, at):
                    found.append(_Found(folder, path, str(manifest.get("digest"))))
            for other in found[1:]:
                if other.digest != found[0].digest:
                    raise BadInput(
                        f"{other.path}: {other.folder} and {found[0].folder} have other records "
                        "of the same run: join only one of them"
                    )
            yield point, run, found


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _copied(
    point: Point, run: Run, found: list[_Found], out: Path, engine: str, say: Callable[[str], None]
) -> bool:
    """Whether one of the folders had the run whole; it is then in place."""
    place = run_folder(out / "points" / point.folder, run)
    for one in found:
        beside = place.with_name(place.name + BESIDE)
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(beside, ignore_errors=True)
            shutil.copytree(one.path, beside)
        wrong = trouble(beside, engine, run.choice.label, run.seed)
        if wrong:
            shutil.rmtree(beside)
            say(f"not taken: {one.path}: {wrong}")
            continue
        _describe(one.path.parent.parent, place.parent.parent)
        os.rename(beside, place)
        return True
    return False


def _describe(source: Path, at: Path) -> None:
    """What stands beside a point's runs; a summary is made again if it is of other records."""
    for name in ("experiment.yaml", "plan.json", "summary.json"):
        if (source / name).is_file() and not (at / name).exists():
            with writing(at / name):
                shutil.copyfile(source / name, at / name)
