"""A run as a trace: read back, held against the tables (Perfetto opens it: test_perfetto_opens)."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import perfetto
from analysis.folder import Results, SealedRun, load
from tests.conftest import giveway
from tests.run_folders import Folder, write

Event = dict[str, Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("runs") / "out"
    return load(write(folder, Folder(seeds=(0,), unfinished={"strict-priority": 0.1})))


@pytest.fixture(scope="module")
def run(results: Results) -> SealedRun:
    return results.runs["strict-priority", 0]


@pytest.fixture(scope="module")
def events(run: SealedRun, results: Results) -> list[Event]:
    found: list[Event] = json.loads(perfetto.trace(run, results.plan))["traceEvents"]
    return found


def names(events: list[Event], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == what}


def tracks(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def ends(event: Event) -> tuple[int, int]:
    return ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])


def test_spans_of_a_track_lie_beside_or_inside_each_other(events: list[Event]) -> None:
    for spans in tracks(events).values():
        around: list[int] = []  # where those end that are still open
        for start, end in map(ends, spans):
            assert end >= start
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
        assert [start for start, _ in map(ends, spans)] == sorted(ns(s["ts"]) for s in spans)


def test_every_track_has_a_name(events: list[Event]) -> None:
    assert tracks(events).keys() <= names(events, "thread_name").keys()
    assert {pid for pid, _ in tracks(events)} <= {pid for pid, _ in names(events, "process_name")}


def test_a_worker_has_its_iterations_computes_and_waits(
    events: list[Event], run: SealedRun
) -> None:
    named = {name: at for at, name in names(events, "thread_name").items()}
    for worker in range(4):
        spans = tracks(events)[named[f"worker {worker} h{worker + 1}"]]
        table = run.table("iterations")
        mine = table[table.worker == worker]
        told = [ends(span) for span in spans if span["cat"] == "iteration"]
        assert told == list(zip(mine.start_ns, mine.end_ns, strict=True))
        computes = run.table("computes")
        own = computes[computes.worker == worker].sort_values("start_ns")
        told = [ends(span) for span in spans if span["cat"] == "compute"]
        assert told == list(zip(own.start_ns, own.end_ns, strict=True))
        # What no span of compute covers is waiting, to the nanosecond.
        waited = sum(end - start for start, end in map(ends, spans_of(spans, "wait")))
        whole = int((mine.end_ns - mine.start_ns).sum())
        assert waited == whole - int((own.end_ns - own.start_ns).sum())


def spans_of(spans: list[Event], category: str) -> list[Event]:
    return [span for span in spans if span["cat"] == category]


def test_transfers_and_flows_are_those_of_the_tables(
    events: list[Event], run: SealedRun, results: Results
) -> None:
    spans = [span for track in tracks(events).values() for span in track]
    sent = run.table("transfers")
    assert sorted(map(ends, spans_of(spans, "transfer"))) == sorted(
        zip(sent.start_ns, sent.end_ns, strict=True)
    )
    told = {span["args"]["flow"]: span for span in spans_of(spans, "flow")}
    flows = run.table("flows")
    assert len(told) == len(flows)
    assert flows.end_ns.isna().any()
    for flow in flows.itertuples():
        span = told[flow.flow]
        end = results.plan.duration_ns if pd.isna(flow.end_ns) else int(flow.end_ns)
        assert ends(span) == (flow.start_ns, end)
        assert span["args"]["finished"] == pd.notna(flow.end_ns)
        host = names(events, "process_name")[span["pid"], 0]
        assert host == f"flows from {flow.src}"


def test_counters_carry_what_the_links_carried(events: list[Event], run: SealedRun) -> None:
    process = {name: at[0] for at, name in names(events, "process_name").items()}
    rates = process["ports, Mbit/s by band"]
    links = run.table("links")
    for link, rows in links.groupby("link"):
        told = [e for e in events if e["ph"] == "C" and e["pid"] == rates and e["name"] == link]
        assert [ns(e["ts"]) for e in told] == sorted(set(rows.time_ns))
        for band, counters in rows.groupby("class"):
            carried = [
                event["args"][band] * (after["ts"] - event["ts"]) / 8
                for event, after in pairwise(told)
            ]
            grown = np.diff(counters.sort_values("time_ns").bytes)
            assert np.allclose(carried, grown)
    drops = process["ports, drops so far by band"]
    last = {e["name"]: e["args"] for e in events if e["ph"] == "C" and e["pid"] == drops}
    assert last["h1->s1"] == {"high": 4, "middle": 4, "low": 4}


def test_overlapping_spans_take_as_few_tracks_as_they_can() -> None:
    spans = [perfetto.Span("", start, start + 10, "flow") for start in (0, 5, 10, 15, 20, 40)]
    spread = list(perfetto._spread("h1", spans))
    assert [name for name, _ in spread] == ["h1 1", "h1 2"]
    assert [[span.start_ns for span in track] for _, track in spread] == [[0, 10, 20, 40], [5, 15]]


def test_the_command_writes_a_trace_into_the_folder_of_each_run(results: Results) -> None:
    done = giveway("export", results.folder, "--perfetto", "--policy", "fifo")
    assert done.returncode == 0, done.stderr
    written = results.folder / "fifo" / "seed-0" / "trace.json"
    assert done.stdout.split() == [str(written)]
    assert json.loads(written.read_text())["otherData"]["policy"] == "fifo"
    for wrong in (["--policy", "fif"], ["--seed", "7"]):
        done = giveway("export", results.folder, "--perfetto", *wrong)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert giveway("export", results.folder).returncode == 2
