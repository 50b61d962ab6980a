"""Writes synthetic run folders whose every number is known, for the tests of the analysis."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from basics import digests
from basics.files import digest_of
from basics.record_version import SCHEMA_VERSION
from basics.records import TABLES

SECOND = 1_000_000_000
RATE_BPS = 1e9
SMALL_MAX, LARGE_MIN = 10_000, 1_000_000
TITLES = {"fifo": "FIFO", "strict-priority": "Strict priority", "htb-priority": "HTB priority"}


@dataclass(frozen=True)
class Effect:
    """What a policy multiplies, compared with a quiet network."""

    small: float = 1.0
    medium: float = 1.0
    large: float = 1.0
    training: float = 1.0
    jobs: dict[str, float] = field(default_factory=dict)  # besides `training`, by job


@dataclass(frozen=True)
class Folder:
    """A description of a whole folder; `write` makes it."""

    effects: dict[str, Effect] = field(
        default_factory=lambda: {
            "fifo": Effect(small=6.0, medium=2.2, large=1.6, training=1.08),
            "strict-priority": Effect(small=3.4, medium=1.7, large=1.5, training=1.13),
        }
    )
    seeds: tuple[int, ...] = (0, 1, 2)
    flows: int = 300  # in each run, over the whole duration
    unfinished: dict[str, float] = field(default_factory=dict)  # share of flows, by policy
    jobs: tuple[str, ...] = ("resnet50",)
    families: dict[str, str] = field(default_factory=dict)  # by job; a job alone is in none
    hosts: int = 4
    compute_ns: int = 480_000_000 // 4
    noise: float = 0.25
    verdicts: dict[str, str] = field(default_factory=dict)
    claims: tuple[dict[str, Any], ...] = ()
    sizes: str = "mixed"  # or the name of a class: then all flows are of it
    duration_ns: int = 4 * SECOND


def claim(**changes: Any) -> dict[str, Any]:
    return {
        "metric": "flows.small.fct_mean",
        "of": "strict-priority",
        "against": "fifo",
        "kind": "change",
        "bound": "at most",
        "value": -0.10,
        "text": "change: at most -10 %",
    } | changes


def write(out: Path, what: Folder | None = None) -> Path:
    what = what or Folder()
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(json.dumps(plan(what)), encoding="utf-8")
    for label in what.effects:
        for seed in what.seeds:
            write_run(out / label / f"seed-{seed}", what, label, seed)
    return out


def plan(what: Folder) -> dict[str, Any]:
    hosts = [f"h{number + 1}" for number in range(what.hosts)]
    return {
        "schema_version": SCHEMA_VERSION,
        "name": "quickstart",
        "question": "What do web-search flows gain when training gives way, "
        "and what does training pay?",
        "engine": "realtime",
        "command": "giveway run experiments/quickstart.yaml",
        "policies": [
            {
                "label": label,
                "policy": label,
                "title": TITLES.get(label, label.replace("-", " ").capitalize()),
                "description": "one queue, first come first served"
                if label == "fifo"
                else "three bands, the higher one always first",
                "bands": bands(label),
            }
            for label in what.effects
        ],
        "seeds": list(what.seeds),
        "duration_ns": what.duration_ns,
        "warmup_ns": SECOND,
        "cooldown_ns": SECOND,
        "window_ns": [SECOND, what.duration_ns - SECOND],
        "links": [
            {"link": link, "rate_bps": RATE_BPS}
            for host in hosts
            for link in (f"{host}->s1", f"s1->{host}")
        ],
        "mixes": [{"name": "web-search", "small_max_byte": SMALL_MAX, "large_min_byte": LARGE_MIN}]
        if what.flows
        else [],
        "jobs": [
            {
                "name": job,
                "family": what.families.get(job, job),
                "workers": what.hosts,
                "hosts": hosts,
                "compute_ns": what.compute_ns,
                "model_byte": 9_822_212,
                "aggregation": "ring",
                "order": "layer",
                "barrier": False,
                "backend": "native",
            }
            for job in what.jobs
        ],
        "claims": list(what.claims),
    }


def bands(label: str) -> list[str]:
    return ["all"] if label == "fifo" else ["high", "middle", "low"]


def write_run(folder: Path, what: Folder, label: str, seed: int) -> None:
    folder.mkdir(parents=True)
    columns = {
        "flows": flows(what, label, seed),
        **training(what, label, seed),
        "links": links(what, label),
        "hosts": {"time_ns": [0], "host": ["h1"], "cpu_share": [0.2]},
    }
    for name, schema in TABLES.items():
        filled = columns.get(name) or {column: [] for column in schema.names}
        pq.write_table(pa.table(filled, schema=schema), folder / f"{name}.parquet")
    (folder / "manifest.json").write_text(json.dumps(manifest(what, label, seed)), "utf-8")
    reseal(folder)


def reseal(folder: Path) -> None:
    """Make the manifest say what the tables are now: for tests that change one."""
    path = folder / "manifest.json"
    files = {name: digests.table_file(folder, name) for name in TABLES}
    content = json.loads(path.read_text("utf-8")) | {
        "digest": digests.of_records({name: digests.rows_of(file) for name, file in files.items()}),
        digests.TABLE_DIGESTS: {name: digest_of(file) for name, file in files.items()},
    }
    path.write_text(json.dumps(content), "utf-8")


def manifest(what: Folder, label: str, seed: int) -> dict[str, Any]:
    verdict = what.verdicts.get(label, "faithful")
    reasons = {
        "faithful": [],
        "simulated": [],
        "doubtful": ["1.2 % of the sleeps were more than 2 ms late."],
        "broken": ["The shaped links reached only 61 % of the rate that was asked for."],
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "finished",
        "engine": "realtime",
        "policy": label,
        "label": label,
        "seed": seed,
        "run_id": "k3f9q2",
        "dilation": 1.0,
        "versions": {"giveway": "0.1.0", "python": "3.11.2", "mininet": "2.3.0"},
        "kernel": "Linux 6.18.44",
        "started": "2026-11-16T03:40:00+00:00",
        "finished": "2026-11-16T03:40:09+00:00",
        "network": {
            "tcp": "cubic",
            "offload": True,
            "idle_rtt_ns": 45_000 + 1_000 * seed,
            "delay_asked_ns": 10_000,
            "delay_strict": False,
            "ports": [{"link": "h1->s1", "asked_bps": 1e9, "read_bps": 1e9}],
        },
        "bands": {job: bands(label)[-1] for job in what.jobs} | {"web-search": bands(label)[0]},
        "fidelity": {
            "verdict": verdict,
            "reasons": reasons[verdict],
            "measured": {
                "shaped_rate_ratio": 0.998,
                "sleep_late_p50_ns": 60_000,
                "sleep_late_p99_ns": 300_000,
                "flow_late_p50_ns": 80_000,
                "flow_late_p99_ns": 500_000,
                "cpu_idle_share": 0.55,
                "cpu_steal_share": 0.0,
                "drops": 12,
            },
        },
    }


def flows(what: Folder, label: str, seed: int) -> dict[str, Any]:
    """Each FCT is its ideal time, a round trip, and noise, times the effect on its class."""
    schedule = np.random.default_rng([seed, 1])
    names = ("small", "medium", "large")
    drawn = schedule.choice(names, p=[0.5, 0.35, 0.15], size=what.flows)
    classes = drawn if what.sizes == "mixed" else np.full(what.flows, what.sizes)
    low = {"small": 400, "medium": SMALL_MAX + 1, "large": LARGE_MIN}
    high = {"small": SMALL_MAX, "medium": LARGE_MIN - 1, "large": 3 * LARGE_MIN}
    size = np.array(
        [int(np.exp(schedule.uniform(np.log(low[c]), np.log(high[c])))) for c in classes],
        dtype=np.int64,
    )
    noise = np.exp(what.noise * schedule.standard_normal(what.flows))
    scheduled = np.sort(schedule.integers(0, what.duration_ns, size=what.flows))
    source = schedule.integers(0, what.hosts, size=what.flows)
    target = (source + schedule.integers(1, max(what.hosts, 2), size=what.flows)) % what.hosts
    luck = np.random.default_rng([seed, 2, *label.encode()])
    own = np.exp(what.noise * luck.standard_normal(what.flows))
    effect = np.array([getattr(what.effects[label], c) for c in classes])
    fct = ((size * 8e9 / RATE_BPS + 90_000) * effect * noise * own).astype(np.int64)
    start = scheduled + 80_000
    lost = luck.random(what.flows) < what.unfinished.get(label, 0.0)
    return {
        "flow": list(range(what.flows)),
        "mix": ["web-search"] * what.flows,
        "src": [f"h{number + 1}" for number in source],
        "dst": [f"h{number + 1}" for number in target],
        "size_byte": size.tolist(),
        "priority": [0] * what.flows,
        "scheduled_ns": scheduled.tolist(),
        "start_ns": start.tolist(),
        "end_ns": [None if gone else int(end) for gone, end in zip(lost, start + fct, strict=True)],
    }


def training(what: Folder, label: str, seed: int) -> dict[str, dict[str, list[Any]]]:
    """Iterations of compute (forward a third, backward the rest) and then waiting."""
    tables = {
        name: {column: [] for column in TABLES[name].names}
        for name in ("iterations", "computes", "transfers")
    }

    def add(table: str, **row: Any) -> None:
        for column, value in row.items():
            tables[table][column].append(value)

    for number, job in enumerate(what.jobs):
        luck = np.random.default_rng([seed, 3, number, *label.encode()])
        begin, iteration = 0, 0
        while begin < what.duration_ns:
            jitter = 1 + 0.02 * what.noise * luck.standard_normal()
            effect = what.effects[label]
            factor = effect.training * effect.jobs.get(job, 1.0)
            length = int(what.compute_ns * factor * jitter)
            for worker in range(what.hosts):
                who = {"job": job, "worker": worker, "iteration": iteration}
                wait = length - what.compute_ns
                add(
                    "iterations",
                    **who,
                    start_ns=begin,
                    end_ns=begin + length,
                    compute_ns=what.compute_ns,
                    wait_ns=wait,
                )
                _one_iteration(add, who, begin, length, what.compute_ns)
            begin += length
            iteration += 1
    return tables


def _one_iteration(add: Any, who: dict[str, Any], begin: int, length: int, compute: int) -> None:
    layers = 10
    forward, backward = compute // 3 // layers, compute * 2 // 3 // layers
    wait = max(length - compute, 0) // layers
    at = begin
    for layer in range(layers):
        at += wait
        span = {"start_ns": at, "end_ns": at + forward, "late_ns": 50_000}
        add("computes", **who, phase="forward", layer=layer, **span)
        at += forward
    free = at
    for number, layer in enumerate(reversed(range(layers))):
        span = {"start_ns": at, "end_ns": at + backward, "late_ns": 50_000}
        add("computes", **who, phase="backward", layer=layer, **span)
        at += backward
        if number % 2:
            free = max(free, at)
            done = free + int(backward * 1.5)
            add(
                "transfers",
                **who,
                transfer=number // 2,
                first_layer=layer,
                layers=2,
                bytes=1_900_000,
                priority=0,
                ready_ns=at,
                start_ns=free,
                end_ns=done,
                needed_ns=done,
            )
            free = done


def links(what: Folder, label: str) -> dict[str, list[Any]]:
    """Counters that grow evenly: the classes of a port fill 10, 20, 30 … % of it."""
    step = SECOND // 20
    rows: dict[str, list[Any]] = {column: [] for column in TABLES["links"].names}
    for host in range(what.hosts):
        for link in (f"h{host + 1}->s1", f"s1->h{host + 1}"):
            for index, name in enumerate(bands(label)):
                for time in range(0, what.duration_ns + 1, step):
                    rows["time_ns"].append(time)
                    rows["link"].append(link)
                    rows["class"].append(name)
                    rows["bytes"].append(int((index + 1) * 0.1 * RATE_BPS / 8 * time / SECOND))
                    rows["drops"].append(time // SECOND)
    return rows


def write_sweep(out: Path) -> Path:
    """A sweep of 2 x 3 points, in which every point is a folder of runs."""
    axes = {"ratio": ["16", "2"], "load": ["23", "46", "92"]}
    points = [
        {"folder": f"{ratio}-{load}", "at": {"ratio": ratio, "load": load}}
        for ratio in axes["ratio"]
        for load in axes["load"]
    ]
    for number, point in enumerate(points):
        effects = {
            "fifo": Effect(small=6.0, medium=2.2, large=1.6, training=1.08),
            "strict-priority": Effect(small=6.0 - number, large=1.5, training=1.1 + 0.2 * number),
        }
        write(out / "points" / str(point["folder"]), Folder(effects=effects))
    raw = {
        "schema_version": SCHEMA_VERSION,
        "name": "grid",
        "question": "Where does it pay?",
        "engine": "virtual",
        "command": "giveway sweep grid.yaml",
        "axes": [{"name": n, "title": f"{n} of it", "labels": ls} for n, ls in axes.items()],
        "points": points,
        "policies": ["fifo", "strict-priority"],
        "seeds": [0, 1, 2],
    }
    (out / "sweep.json").write_text(json.dumps(raw), encoding="utf-8")
    return out
