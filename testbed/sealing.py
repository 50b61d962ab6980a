"""Turns the journals of a run into tables: `finished` is written last of all.

A table is written under another name and renamed; the manifest that says `finished` comes after
every table. So a folder that says so is whole, whatever happened to the machine.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from basics import digests
from basics.files import digest_of, whole, write_json
from basics.record_version import SCHEMA_VERSION
from basics.records import TABLES
from testbed import machine, stacks
from testbed.engine import Performance, Run, Setting
from testbed.fidelity import SIMULATED, verdict
from testbed.job_plans import rank_hosts
from testbed.run_folder import UNDONE, Row, RunFolder, now
from workloads.schedule import Schedule, schedule_of

# Tables with a row for something in an iteration of a job, and when that began.
OF_ITERATIONS = {
    "iterations": "start_ns",
    "computes": "start_ns",
    "transfers": "start_ns",
    "barriers": "enter_ns",
}


def sealed(
    run: Run,
    folder: RunFolder,
    setting: Setting,
    engine: str,
    perform: Callable[[], Performance],
    found: Mapping[str, list[Row]] | None = None,
    **more: Any,
) -> None:
    """Perform a run and seal its folder; if it fails, the folder says so.

    `found`: the records, where they are in memory instead of in journals.
    """
    manifest: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine,
        "policy": run.choice.policy,
        "label": run.choice.label,
        "seed": run.seed,
        "run_id": run.run_id,
        "dilation": setting.wiring.dilation,
        "capacity_bps": setting.capacity_bps,
        "versions": machine.versions() | stacks.versions(run.experiment),
        "kernel": machine.kernel(),
        "started": now(),
        "bands": run.bands,
        "placement": None if run.placement is None else run.placement.plain(),
        "backends": {job.name: job.backend for job in run.experiment.training},
        **more,
    }
    try:
        performance = perform()
        judged, reasons = (
            (SIMULATED, performance.cautions)
            if performance.simulated
            else verdict(performance.measured)
        )
        manifest["network"] = performance.network
        if performance.lost:
            manifest["lost"] = performance.lost
        if performance.states:
            manifest["states"] = performance.states
        manifest["fidelity"] = {
            "verdict": judged,
            "reasons": reasons,
            "measured": performance.measured,
        }
        records = tables(run, folder.read_journals() if found is None else found)
        seal(folder, records, {**manifest, "finished": now()})
    except BaseException as error:
        folder.fail(manifest, str(error) or type(error).__name__)
        raise


def seal(folder: RunFolder, records: Mapping[str, list[Row]], manifest: Mapping[str, Any]) -> None:
    """Write every table, then the manifest that says `finished`, then drop the journals."""
    written = {
        name: write_table(folder, name, schema, records.get(name, []))
        for name, schema in TABLES.items()
    }
    write_json(
        folder.path / "manifest.json",
        {
            "status": "finished",
            "digest": digests.of_records(records),
            digests.TABLE_DIGESTS: written,
            **manifest,
        },
    )
    for journal in folder.journals.iterdir():
        journal.unlink()
    folder.journals.rmdir()


def trouble(path: Path, engine: str, label: str, seed: int) -> str | None:
    """What is wrong with a folder that should hold this run, sealed; None if it does.

    Whole tables are not enough: what they hold must still be what the manifest says.
    """
    for name in ("manifest.json", *(f"{table}.parquet" for table in TABLES)):
        if not (path / name).is_file():
            return f"{name} is missing"
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        if manifest.get("status") != "finished":
            return f"its status is {manifest.get('status')}"
        found = (
            manifest["schema_version"],
            manifest["engine"],
            manifest["label"],
            manifest["seed"],
        )
        if found != (SCHEMA_VERSION, engine, label, seed):
            return "it is another run's folder"
        if digests.TABLE_DIGESTS not in manifest:  # then reading them is all that can be tried
            for name in TABLES:
                pq.ParquetFile(digests.table_file(path, name)).read()
        return digests.damage(path, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        return f"it cannot be read ({type(error).__name__})"


def write_table(folder: RunFolder, name: str, schema: pa.Schema, rows: list[Row]) -> str:
    """Write a table; returns the digest of its file."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )
    with whole(digests.table_file(folder.path, name)) as beside:
        pq.write_table(table, beside)
        return digest_of(beside)


def tables(run: Run, found: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The records of a run, from what its tasks wrote."""
    found = without_undone(found)
    flows = flow_rows(run, schedule_of(run.experiment, run.seed), found)
    sampled = tcp_rows(run, flows, found)
    return {**found, "flows": flows, "jobs": job_rows(run, found), "tcp": sampled}


def without_undone(found: Mapping[str, list[Row]]) -> Mapping[str, list[Row]]:
    """What a job of a cluster did that was lost with a host is made anew, and counts once."""
    if not found.get(UNDONE):
        return found
    kept = {name: rows for name, rows in found.items() if name != UNDONE}
    for name in OF_ITERATIONS:
        columns = TABLES[name].names
        which, when = columns.index("iteration"), columns.index(OF_ITERATIONS[name])
        for job, first, lost_ns in found[UNDONE]:
            kept[name] = [
                row
                for row in kept.get(name, [])
                if row[0] != job or row[which] < first or row[when] >= lost_ns
            ]
    return kept


def tcp_rows(run: Run, flows: list[Row], found: Mapping[str, list[Row]]) -> list[Row]:
    """Samples of connections, in the order of time; tasks know theirs by number alone."""
    rows: list[Row] = []
    for time_ns, flow, *numbers in found.get("tcp_of_flows", []):
        _, mix, src, dst, *_ = flows[flow]
        rows.append([time_ns, mix, flow, None, None, src, dst, *numbers])
    hosts = {job.name: rank_hosts(job) for job in run.experiment.training}
    for time_ns, job, rank, to, *numbers in found.get("tcp_of_ranks", []):
        ends = hosts[job][rank], hosts[job][to]
        rows.append([time_ns, job, None, rank, to, *ends, *numbers])
    return sorted(rows, key=lambda row: row[0])


def job_rows(run: Run, found: Mapping[str, list[Row]]) -> list[Row]:
    """What became of each job, from its iterations and what its tasks said of failures."""
    made: dict[str, dict[int, int]] = {}
    ended: dict[str, int] = {}
    for job, worker, _, _, end_ns, *_ in found.get("iterations", []):
        steps = made.setdefault(job, {})
        steps[worker] = steps.get(worker, 0) + 1
        ended[job] = max(end_ns, ended.get(job, 0))
    broken: dict[str, str] = {}
    for job, _, why in sorted(found.get("failures", []), key=lambda row: row[1]):
        broken.setdefault(job, why)
    rows: list[Row] = []
    for job in run.experiment.training:
        steps = made.get(job.name, {})
        slowest = min((steps.get(rank, 0) for rank in range(len(job.host_names))), default=0)
        finished = job.steps is not None and slowest >= job.steps
        why = None if finished else broken.get(job.name)
        status = "finished" if finished else "failed" if why else "stopped"
        end_ns = ended[job.name] if finished else None
        rows.append([job.name, job.start_ns, end_ns, job.steps, slowest, status, why])
    return rows


def flow_rows(run: Run, schedule: Schedule, found: Mapping[str, list[Row]]) -> list[Row]:
    """One row a scheduled flow, finished or not, in the order of the schedule."""
    started, ended = (dict(map(tuple, found.get(name, []))).get for name in ("start", "end"))
    hosts = run.experiment.host_names
    mixes = [mix.name for mix in run.experiment.flows]
    bands = run.choice.link_policy.bands
    priorities = [bands.index(run.bands[mix]) for mix in mixes]
    columns = (
        column.tolist()
        for column in (
            schedule.flow,
            schedule.mix,
            schedule.src,
            schedule.dst,
            schedule.size_byte,
            schedule.start_ns,
        )
    )
    return [
        [
            flow,
            mixes[mix],
            hosts[src],
            hosts[dst],
            size_byte,
            priorities[mix],
            start_ns,
            started(flow),
            ended(flow),
        ]
        for flow, mix, src, dst, size_byte, start_ns in zip(*columns, strict=True)
    ]
