"""No tenant ever disappears: who has nothing in the window has a row, and it is said why."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from analysis import folder, report, sweep
from analysis.summary import Summary, summarise
from basics.errors import BadInput
from basics.records import TABLES
from testbed.cli.commands import app
from tests import run_folders
from tests.run_folders import SECOND, Folder

FEW: dict[str, Any] = {"seeds": (0,), "flows": 120}
Rows = list[dict[str, Any]]


def changed(out: Path, table: str, how: Any, *labels: str) -> None:
    """Another table of some policies: `how` gets its rows and gives those that are kept."""
    for path in (path for one in labels for path in out.glob(f"{one}/seed-*/{table}.parquet")):
        rows = how(pq.read_table(path).to_pylist())
        pq.write_table(pa.Table.from_pylist(rows, TABLES[table]), path)
        run_folders.reseal(path.parent)


def planned(out: Path, **jobs: Any) -> None:
    plan = json.loads((out / "plan.json").read_text())
    plan["jobs"] = [job | jobs for job in plan["jobs"]]
    (out / "plan.json").write_text(json.dumps(plan))


def stretched(rows: Rows) -> Rows:
    """One iteration a worker, longer than the window."""
    longest = {"start_ns": SECOND // 2, "end_ns": 7 * SECOND // 2, "wait_ns": SECOND}
    return [row | longest for row in rows if row["iteration"] == 0]


BOTH = ("fifo", "strict-priority")
EARLY = {"start_ns": 0, "end_ns": SECOND // 4}


@pytest.mark.parametrize(
    ("how", "jobs", "why"),
    [
        (stretched, {}, "no whole iteration lies in the window of 1 s to 3 s (the shortest took 3"),
        (lambda rows: [], {}, "not one iteration ended within 4 s (compute alone takes 120 ms"),
        (lambda rows: [], {"start_ns": 3 * SECOND}, "it starts at 3 s, and the window ends at 3 s"),
        (
            lambda rows: [row | EARLY for row in rows if row["iteration"] < 2],
            {"steps": 2},
            "it had made its 2 steps before the window began at 1 s",
        ),
    ],
)
def test_a_job_without_an_iteration_stays_and_says_why(
    how: Any, jobs: dict[str, Any], why: str, tmp_path: Path
) -> None:
    out = run_folders.write(tmp_path / "out", Folder(**FEW))
    changed(out, "iterations", how, *BOTH)
    planned(out, **jobs)
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 0
    told = done.stdout.replace("\xa0", " ")
    assert "resnet50, iterations in the window" in told
    assert f"Nothing was measured of job resnet50: {why}" in told
    summary = json.loads((out / "summary.json").read_text())
    entry = summary["absent"][0]
    assert (entry["kind"], entry["who"], entry["policies"]) == ("job", "resnet50", list(BOTH))
    assert entry["change"]  # what to do about it
    assert "resnet50" in [tenant["name"] for tenant in summary["tenants"]]
    page = (out / "report.html").read_text().replace("\xa0", " ")
    assert "iterations in the window" in page
    assert f"<li>Nothing was measured of job resnet50: {why}" in page


def unended(smallest: int) -> Any:
    return lambda rows: [
        row | ({"end_ns": None} if row["size_byte"] >= smallest else {}) for row in rows
    ]


def of(out: Path) -> Summary:
    return summarise(folder.load(out), resamples=20)


def test_a_size_class_without_a_finished_flow_stays(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(**FEW))
    changed(out, "flows", unended(run_folders.LARGE_MIN), *BOTH)
    found = of(out)
    assert "large" in [tenant["name"] for tenant in found["tenants"]]
    assert "Nothing was measured of large flows: none of its " in found["answer"]
    assert "cooldown" in found["answer"]


def test_who_has_something_under_one_policy_is_named_for_the_other(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(**FEW))
    changed(out, "flows", unended(run_folders.LARGE_MIN), "fifo")
    assert "Nothing was measured of large flows under FIFO: " in of(out)["answer"]


def test_a_mix_without_a_flow_stays_and_is_said_once(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(**FEW))
    changed(out, "flows", lambda rows: [], *BOTH)
    found = of(out)
    assert [(entry["kind"], entry["who"]) for entry in found["absent"]] == [("mix", "web-search")]
    assert "no flow was due within 4 s" in found["answer"].replace("\xa0", " ")


def test_nothing_to_compare_names_who_has_nothing(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(**FEW))
    changed(out, "flows", unended(0), *BOTH)
    changed(out, "iterations", lambda rows: [], *BOTH)
    report.write(out)
    said = json.loads((out / "summary.json").read_text())["answer"]
    assert said.startswith("Nothing in the measured window can be compared. Nothing was measured")
    with pytest.raises(BadInput, match=r"job resnet50.*mix web-search"):
        report.draw(out, tmp_path / "x.png")


def test_many_with_the_same_reason_share_a_sentence(tmp_path: Path) -> None:
    jobs = tuple(f"job-{number}" for number in range(6))
    out = run_folders.write(tmp_path / "out", Folder(jobs=jobs, **FEW))
    changed(out, "iterations", lambda rows: [], *BOTH)
    assert (
        "of job job-0, job job-1, job job-2, job job-3, job job-4 and job job-5: "
        in (of(out)["answer"])
    )


def test_where_all_is_there_nothing_is_said(tmp_path: Path) -> None:
    found = of(run_folders.write(tmp_path / "out", Folder(**FEW)))
    assert found["absent"] == []
    assert "Nothing was measured" not in found["answer"]


def test_a_sweep_says_who_has_nothing_at_which_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "RESAMPLES", 20)
    out = run_folders.write_sweep(tmp_path / "out")
    points = sorted((out / "points").iterdir())
    labels = [path.name for path in points[0].iterdir() if path.is_dir()]
    changed(points[0], "iterations", lambda rows: [], *labels)
    done = CliRunner().invoke(app, ["report", str(out), "--json"])
    said = f"At 1 of {len(points)} points, such as "
    assert said in done.stderr
    assert said in (out / "report.html").read_text()
    counts = [len(point["absent"]) for point in json.loads(done.stdout)["points"]]
    assert sorted(counts) == [0] * (len(points) - 1) + [1]
