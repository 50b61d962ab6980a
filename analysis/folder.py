"""Opens a folder of runs, or says plainly why it cannot be trusted.

Everything downstream works on `Results`, so no other module has to ask whether a run finished,
whether a table is there, or which version wrote it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from basics import digests
from basics.errors import BadInput, GivewayError, RunFailed
from basics.record_version import READABLE_VERSIONS
from basics.records import NEW_TABLES, TABLES

# From best to worst. A simulation is neither good nor bad: there was nothing to keep up with.
VERDICTS = ("faithful", "simulated", "doubtful", "broken")


@dataclass(frozen=True)
class Policy:
    label: str
    title: str
    description: str
    bands: tuple[str, ...]


@dataclass(frozen=True)
class MixClasses:
    name: str
    small_max_byte: float
    large_min_byte: float


@dataclass(frozen=True)
class Job:
    name: str
    workers: int
    hosts: tuple[str, ...]
    compute_ns: float
    model_byte: float
    backend: str = "native"
    servers: tuple[str, ...] = ()  # hosts of its parameter servers
    start_ns: int = 0
    steps: int | None = None
    moves_ns: tuple[float, ...] = ()  # pushes and reads of its model, each alone on a link
    family: str = ""  # the entry that it came from, with `count`; its own name if from none


@dataclass(frozen=True)
class PlannedClaim:
    metric: str
    of: str
    against: str | None
    kind: str  # "change": relative, against another policy; "value": the metric itself
    bound: str  # "at most" or "at least"
    value: float
    text: str


@dataclass(frozen=True)
class Plan:
    name: str
    question: str
    engine: str
    command: str
    policies: tuple[Policy, ...]
    seeds: tuple[int, ...]
    duration_ns: int
    window_ns: tuple[int, int]
    rates_bps: Mapping[str, float]  # by link
    delays_ns: Mapping[str, float]  # likewise, by the file; none in plans of before they were there
    mixes: tuple[MixClasses, ...]
    jobs: tuple[Job, ...]
    claims: tuple[PlannedClaim, ...]
    cluster: Mapping[str, Any] | None = None  # its hosts and the capacity of each

    @property
    def first(self) -> Policy:
        return self.policies[0]

    @property
    def others(self) -> tuple[Policy, ...]:
        return self.policies[1:]


@dataclass(frozen=True)
class SealedRun:
    """One policy under one seed. Tables are read when first asked for, and then kept."""

    label: str
    seed: int
    folder: Path
    manifest: Mapping[str, Any]
    _tables: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pd.DataFrame:
        if name in NEW_TABLES and name not in self.manifest.get(digests.TABLE_DIGESTS, ()):
            empty: pd.DataFrame = TABLES[name].empty_table().to_pandas()
            return empty
        if name not in self._tables:
            self._tables[name] = _read_table(self.folder / f"{name}.parquet", TABLES[name])
        return self._tables[name]

    @property
    def fidelity(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.manifest["fidelity"]
        return found


@dataclass(frozen=True)
class Results:
    folder: Path
    plan: Plan
    runs: Mapping[tuple[str, int], SealedRun]

    def of(self, label: str) -> list[SealedRun]:
        """The runs of one policy, in the order of the seeds."""
        return [self.runs[label, seed] for seed in self.plan.seeds]


def load(out: Path) -> Results:
    """Read the plan and every manifest, and hold the tables against it; they are read later."""
    plan = _plan(out)
    runs = {
        (policy.label, seed): _run(out, policy.label, seed)
        for policy in plan.policies
        for seed in plan.seeds
    }
    return Results(out, plan, runs)


def _plan(out: Path) -> Plan:
    path = out / "plan.json"
    if not path.is_file():
        raise BadInput(
            f"{out}: not a folder of runs (it has no plan.json). "
            "Give the folder that `giveway run --out` wrote."
        )
    raw = _json(path)
    _check_version(raw, path)
    try:
        plan = _parse_plan(raw)
    except (KeyError, TypeError, ValueError) as problem:
        raise BadInput(
            f"{path}: damaged ({type(problem).__name__}: {problem}). Run the experiment again."
        ) from problem
    if not plan.policies or not plan.seeds:
        raise BadInput(f"{path}: has no policy or no seed, so there is nothing to report.")
    return plan


def _titles(policies: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By label; the label itself where policies of one title differ in their options alone."""
    titles = {entry["label"]: entry.get("title") or entry["label"] for entry in policies}
    found = list(titles.values())
    return {label: t if found.count(t) == 1 else label for label, t in titles.items()}


def _parse_plan(raw: Mapping[str, Any]) -> Plan:
    begin, end = raw["window_ns"]
    titles = _titles(raw["policies"])
    return Plan(
        name=raw["name"],
        question=raw.get("question") or "",
        engine=raw["engine"],
        command=raw.get("command") or "",
        policies=tuple(
            Policy(
                entry["label"],
                titles[entry["label"]],
                entry.get("description") or "",
                tuple(entry.get("bands") or ("all",)),
            )
            for entry in raw["policies"]
        ),
        seeds=tuple(int(seed) for seed in raw["seeds"]),
        duration_ns=int(raw["duration_ns"]),
        window_ns=(int(begin), int(end)),
        rates_bps={entry["link"]: float(entry["rate_bps"]) for entry in raw["links"]},
        delays_ns={entry["link"]: float(entry.get("delay_ns", 0)) for entry in raw["links"]},
        mixes=tuple(
            MixClasses(
                entry["name"], float(entry["small_max_byte"]), float(entry["large_min_byte"])
            )
            for entry in raw.get("mixes", [])
        ),
        jobs=tuple(
            Job(
                entry["name"],
                int(entry["workers"]),
                tuple(entry.get("hosts", [])),
                float(entry["compute_ns"]),
                float(entry["model_byte"]),
                entry.get("backend", "native"),
                tuple(entry.get("servers", [])),
                int(entry.get("start_ns", 0)),
                entry.get("steps"),
                tuple(entry.get("moves_ns", [])),
                entry.get("family") or entry["name"],
            )
            for entry in raw.get("jobs", [])
        ),
        claims=tuple(
            PlannedClaim(
                entry["metric"],
                entry["of"],
                entry.get("against"),
                entry["kind"],
                entry["bound"],
                float(entry["value"]),
                entry.get("text") or "",
            )
            for entry in raw.get("claims", [])
        ),
        cluster=raw.get("cluster"),
    )


def _run(out: Path, label: str, seed: int) -> SealedRun:
    folder = out / label / f"seed-{seed}"
    path = folder / "manifest.json"
    again = "Run the experiment again, or leave this policy or seed out of it."
    if not path.is_file():
        raise RunFailed(f"{folder}: this run never finished (it has no manifest.json). {again}")
    manifest = _json(path)
    _check_version(manifest, path)
    status = manifest.get("status")
    if status != "finished":
        raise RunFailed(
            f"{folder}: this run did not finish (status: {status}); "
            f"its last words are in {folder / 'logs'}. {again}"
        )
    verdict = (manifest.get("fidelity") or {}).get("verdict")
    if verdict not in VERDICTS:
        raise RunFailed(
            f"{path}: fidelity verdict {verdict!r} is none of {', '.join(VERDICTS)}, "
            f"so its numbers cannot be judged. {again}"
        )
    whose = manifest.get("label"), manifest.get("seed")
    if whose != (label, seed):
        raise RunFailed(f"{path}: is of another run ({whose[0]}, seed {whose[1]}). {again}")
    damaged = digests.damage(folder, manifest)
    if damaged:
        raise RunFailed(f"{folder}: {damaged}, so its numbers cannot be trusted. {again}")
    return SealedRun(label, seed, folder, manifest)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise GivewayError(
            f"{path}: cannot be read ({problem}). Run the experiment again."
        ) from problem
    if not isinstance(found, dict):
        raise GivewayError(f"{path}: is not a JSON object. Run the experiment again.")
    return found


def _check_version(raw: Mapping[str, Any], path: Path) -> None:
    version = raw.get("schema_version")
    if version not in READABLE_VERSIONS:
        readable = " and ".join(map(str, READABLE_VERSIONS))
        raise BadInput(
            f"{path}: schema version {version}, but this Giveway reads {readable}. "
            "Use the Giveway that wrote it, or run the experiment again."
        )


def _read_table(path: Path, schema: pa.Schema) -> pd.DataFrame:
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as problem:
        raise RunFailed(
            f"{path}: cannot be read ({problem}). Run the experiment again."
        ) from problem
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise RunFailed(
            f"{path}: lacks the column(s) {', '.join(missing)}. Run the experiment again."
        )
    frame: pd.DataFrame = table.select(schema.names).cast(schema).to_pandas()
    return frame
