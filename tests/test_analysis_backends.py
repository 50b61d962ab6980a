"""Stacks side by side: only where backends differ, and over whole iterations."""

import json
from pathlib import Path

import pytest

from analysis import backends, folder, overlay, words
from analysis.answer import answer
from tests import run_folders
from tests.run_folders import Folder


def test_jobs_of_one_backend_are_not_set_side_by_side(tmp_path: Path) -> None:
    results = folder.load(run_folders.write(tmp_path / "out", Folder()))
    assert backends.side_by_side(results) == []
    assert overlay.sent_by_stack(results) == []


def test_each_backend_is_compared_with_the_first(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(jobs=("a", "b")))
    plan = json.loads((out / "plan.json").read_text())
    plan["jobs"][1]["backend"] = "torch"
    (out / "plan.json").write_text(json.dumps(plan))
    results = folder.load(out)
    sent = {}
    for job in results.plan.jobs:
        line = overlay.sent_since_start(
            results.of(results.plan.first.label)[0], job, results.plan.window_ns
        )
        assert line is not None
        assert (line[0][0], line[1][0]) == (0, 0)
        sent[job.name] = line[1][-1] / overlay.ITERATIONS
    [panel, *_] = overlay.sent_by_stack(folder.load(out))
    assert "native" in panel.svg
    assert "torch" in panel.svg
    rows = backends.side_by_side(folder.load(out))
    assert [(row["job"], row["backend"]) for row in rows[:2]] == [("a", "native"), ("b", "torch")]
    assert rows[0]["iteration_mean_ns_change"] == 0
    expected = rows[1]["iteration_mean_ns"] / rows[0]["iteration_mean_ns"] - 1
    assert rows[1]["iteration_mean_ns_change"] == pytest.approx(expected)
    for row in rows[:2]:
        assert row["sent_byte_per_iteration"] > 0
        assert sent[row["job"]] == pytest.approx(row["sent_byte_per_iteration"], rel=0.25)
    [said, *_] = backends.sentences(rows, {row["policy"]: "P" for row in rows}, flows=True)
    assert "torch" in said
    assert "against native" in said


def test_with_one_policy_the_answer_is_how_far_the_stacks_are_apart() -> None:
    rows = [
        {"backend": "native", "iteration_mean_ns": 482e6, "iteration_mean_ns_change": 0.0},
        {"backend": "torch", "iteration_mean_ns": 489e6, "iteration_mean_ns_change": 0.0142},
    ]
    faithful = {"title": "FIFO", "fidelity": {"verdict": "faithful"}}
    said = answer({"policies": {"fifo": faithful}, "backends": rows, "absent": []})
    assert said.replace(words.SPACE, " ") == (
        "An iteration takes 482 ms on native and 489 ms on torch (+1.4 %)."
    )
