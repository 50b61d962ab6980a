"""Completion times, barrier waits and use of hosts, from records whose every number is known."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import look, report, straggler_plots, stragglers, views
from analysis.folder import load
from analysis.summary import summarise
from analysis.sweep import Grid
from basics.digests import TABLE_DIGESTS
from basics.records import NEW_TABLES, TABLES
from tests import run_folders
from tests.run_folders import Effect, Folder

MS = 1_000_000
JOBS = tuple(f"ps-{number}" for number in range(1, 7))
WORKERS = 4
# Within each barrier the workers come so many ms apart; a policy scales this and the job's length.
APART_MS = {"fifo": 3.0, "tensorlights-one": 1.0}
LENGTH_MS = {"fifo": 2000, "tensorlights-one": 1600}


def rows_to(path: Path, table: str, rows: list[dict[str, Any]]) -> None:
    columns = {name: [row[name] for row in rows] for name in TABLES[table].names}
    pq.write_table(pa.table(columns, schema=TABLES[table]), path / f"{table}.parquet")
    run_folders.reseal(path)


def barrier_rows(job: str, apart_ns: int, count: int = 20) -> list[dict[str, Any]]:
    """Every 100 ms from 1 s on, the workers 0, 1, 2, 3 steps after the first."""
    return [
        {
            "job": job,
            "server": 0,
            "iteration": number,
            "worker": worker,
            "enter_ns": 1000 * MS + number * 100 * MS + worker * apart_ns,
            "leave_ns": 1000 * MS + number * 100 * MS + (WORKERS - 1) * apart_ns,
        }
        for number in range(count)
        for worker in range(WORKERS)
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six jobs with servers on h1 and four workers, under two policies, two seeds."""
    what = Folder(
        effects={"fifo": Effect(), "tensorlights-one": Effect()},
        seeds=(0, 1), flows=0, jobs=JOBS,
    )  # fmt: skip
    folder = run_folders.write(tmp_path_factory.mktemp("stragglers") / "out", what)
    plan = json.loads((folder / "plan.json").read_text())
    for job in plan["jobs"]:
        job |= {"servers": ["h1"], "start_ns": 100 * MS, "steps": 20}
    (folder / "plan.json").write_text(json.dumps(plan))
    for label, apart_ms in APART_MS.items():
        for seed in (0, 1):
            run = folder / label / f"seed-{seed}"
            end_ns = [(100 + LENGTH_MS[label] + 10 * at) * MS for at in range(len(JOBS))]
            rows_to(
                run, "jobs",
                [{"job": job, "start_ns": 100 * MS, "end_ns": end, "steps": 20, "made": 20,
                  "status": "finished", "why": None}
                 for job, end in zip(JOBS, end_ns, strict=True)],
            )  # fmt: skip
            rows_to(
                run, "barriers",
                [row for job in JOBS for row in barrier_rows(job, round(apart_ms * MS))],
            )  # fmt: skip
    return folder


def test_waits_within_a_barrier_are_from_entering_to_its_opening() -> None:
    table = pd.DataFrame(barrier_rows("job", 2 * MS, count=2))
    found = stragglers.barriers(table, (0, 10_000 * MS))
    assert found["mean_ns"].tolist() == [3 * MS] * 2  # 6, 4, 2 and 0 ms
    assert found["variance_ms2"].tolist() == pytest.approx([5.0] * 2)
    assert found["last_ns"].tolist() == [3 * MS] * 2  # the last came 3 ms after the median


def test_a_worker_enters_when_its_last_server_has_its_gradient() -> None:
    rows = barrier_rows("job", 2 * MS, count=1)
    second = [row | {"server": 1, "enter_ns": row["leave_ns"]} for row in rows]
    found = stragglers.barriers(pd.DataFrame(rows + second), (0, 10_000 * MS))
    assert found["mean_ns"].tolist() == [0.0]


def test_barriers_count_where_they_open() -> None:
    table = pd.DataFrame(barrier_rows("job", 0, count=10))
    assert len(stragglers.barriers(table, (1100 * MS, 1300 * MS))) == 3


def test_the_summary_compares_jobs_one_by_one(out: Path) -> None:
    summary = summarise(load(out), resamples=200)
    fifo, one = (summary["policies"][label]["jobs"] for label in APART_MS)
    assert (fifo["count"], fifo["finished"], fifo["failed"]) == (12, 12, 0)
    assert fifo["jct_mean_ns"] == pytest.approx(2025 * MS)
    assert one["by_job"]["ps-1"]["jct_normalised"] == pytest.approx(0.8)
    assert fifo["barrier_wait_mean_ns"] == pytest.approx(4.5 * MS)
    assert fifo["barrier_wait_variance_ms2"] == pytest.approx(11.25)
    assert one["barrier_wait_variance_ms2"] == pytest.approx(1.25)
    assert fifo["straggler_share"] == pytest.approx(0.045)  # 4.5 ms of each 100
    assert fifo["straggler_spread"] == pytest.approx(
        0.09
    )  # the first came as early as the last late
    change = summary["policies"]["tensorlights-one"]["change"]
    assert change["jobs.jct_mean"]["change"] == pytest.approx(1625 / 2025 - 1)
    low, high = change["jobs.jct_mean"]["interval_95"]
    assert low <= change["jobs.jct_mean"]["change"] <= high < 0
    assert "jobs are done 20 % sooner on average" in summary["answer"].replace("\xa0", " ")


def test_hosts_are_used_as_their_links_and_workers_say(out: Path) -> None:
    results = load(out)
    run = results.runs["fifo", 0]
    found = stragglers.host_values(run, results.plan).set_index("host")
    assert found.loc["h1", "sent"] == pytest.approx(0.1)
    assert found.loc["h1", "received"] == pytest.approx(0.1)
    assert found.loc["h2", "computing"] == pytest.approx(1.0, abs=0.05)


def test_the_report_shows_such_jobs_where_there_are_some(out: Path, tmp_path: Path) -> None:
    page = report.write(out).read_text()
    for said in ("Jobs that wait for each other", "Variance of the waits", "Use of hosts", "h1,"):
        assert said in page
    other = run_folders.write(tmp_path / "other")
    assert "Jobs that wait for each other" not in report.write(other).read_text()


def test_completion_times_are_drawn_against_placements(out: Path) -> None:
    results = load(out)
    policies = summarise(results, resamples=200)["policies"]
    drawn = straggler_plots.by_placement(
        {"packed": policies, "spread": policies}, list(policies), look.looks(results.plan)
    )
    assert "packed, spread" in drawn.svg
    assert "2.02, 2.02" in drawn.svg


def test_a_job_that_broke_is_said_to_have(out: Path, tmp_path: Path) -> None:
    broken = run_folders.write(tmp_path / "broken", Folder(jobs=("ps-1",), seeds=(0,)))
    plan = json.loads((broken / "plan.json").read_text())
    plan["jobs"][0] |= {"servers": ["h1"]}
    (broken / "plan.json").write_text(json.dumps(plan))
    run = broken / "fifo" / "seed-0"
    failed = {"job": "ps-1", "start_ns": 0, "end_ns": None, "steps": None, "made": 3,
              "status": "failed", "why": "lost server 0"}  # fmt: skip
    rows_to(run, "jobs", [failed])
    rows_to(run, "barriers", barrier_rows("ps-1", MS))
    assert "1 of 1 jobs broke" in report.write(broken).read_text()


def test_a_folder_of_the_version_before_is_still_read(tmp_path: Path) -> None:
    old = run_folders.write(tmp_path / "old")
    for path in [old / "plan.json", *old.glob("*/*/manifest.json")]:
        content = json.loads(path.read_text()) | {"schema_version": 1}
        content.pop(TABLE_DIGESTS, None)
        path.write_text(json.dumps(content))
    for name in NEW_TABLES:
        for path in old.glob(f"*/*/{name}.parquet"):
            path.unlink()
    assert report.write(old).is_file()


def test_a_page_of_reproductions_has_a_row_for_each_host(out: Path) -> None:
    report.write(out)
    summary = json.loads((out / "summary.json").read_text())
    place = {"placement": "packed"}
    grid = SimpleNamespace(
        axes=[SimpleNamespace(name="placement")],
        policies=list(APART_MS),
        points={("packed",): out},
        summaries={("packed",): summary},
        title_of=lambda label: label,
    )
    panel = views.hosts_at(cast(Grid, grid), "Use of hosts", "use", [place], list(APART_MS))
    assert [row[0] for row in panel.rows] == stragglers.hosts(load(out).plan)
    assert panel.rows[0][2] == "10 % / 10 %".replace(" %", "\xa0%")
