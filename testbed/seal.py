"""Turns the journals of a run into tables: `finished` is written last of all.

A table is written under another name and renamed; the manifest that says `finished` comes after
every table. So a folder that says so is whole, whatever happened to the machine.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from testbed import machine, stacks
from testbed.engine import Performance, Run, Setting
from testbed.fidelity import verdict
from testbed.folder import Row, RunFolder, now, write_json, writing
from testbed.records import SCHEMA_VERSION, TABLES
from workloads.schedule import Schedule, schedule_of


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
        **more,
    }
    try:
        performance = perform()
        word, reasons = verdict(performance.measured)
        manifest["network"] = performance.network
        manifest["fidelity"] = {
            "verdict": word,
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
    for name, schema in TABLES.items():
        write_table(folder, name, schema, records.get(name, []))
    write_json(
        folder.path / "manifest.json",
        {"status": "finished", "digest": digest(records), **manifest},
    )
    for journal in folder.journals.iterdir():
        journal.unlink()
    folder.journals.rmdir()


def digest(records: Mapping[str, list[Row]]) -> str:
    """Of what happened to flows and iterations, every time included."""
    told = [records.get(name, []) for name in ("flows", "iterations")]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def write_table(folder: RunFolder, name: str, schema: pa.Schema, rows: list[Row]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )
    path = folder.path / f"{name}.parquet"
    with writing(path):
        half = path.with_name(path.name + ".half")
        pq.write_table(table, half)
        half.rename(path)


def tables(run: Run, found: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The records of a run, from what its tasks wrote."""
    return {**found, "flows": flow_rows(run, schedule_of(run.experiment, run.seed), found)}


def flow_rows(run: Run, schedule: Schedule, found: Mapping[str, list[Row]]) -> list[Row]:
    """One row a scheduled flow, finished or not, in the order of the schedule."""
    started = dict(map(tuple, found.get("start", [])))
    ended = dict(map(tuple, found.get("end", [])))
    hosts = run.experiment.host_names
    mixes = [
        (mix.name, run.choice.link_policy.bands.index(run.bands[mix.name]))
        for mix in run.experiment.flows
    ]
    rows = []
    for at, flow in enumerate(schedule.flow.tolist()):
        mix, priority = mixes[schedule.mix[at]]
        rows.append(
            [
                flow,
                mix,
                hosts[schedule.src[at]],
                hosts[schedule.dst[at]],
                int(schedule.size_byte[at]),
                priority,
                int(schedule.start_ns[at]),
                started.get(flow),
                ended.get(flow),
            ]
        )
    return rows
