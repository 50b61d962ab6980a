"""Panels that stand side by side are compared by eye, so they have the same axes."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from analysis import compare, folder, look, plots
from analysis.summary import summarise
from tests import run_folders
from tests.run_folders import Effect, Folder


def drawn(out: Path, monkeypatch: pytest.MonkeyPatch, **what: Any) -> list[Any]:
    """The axes of the iteration panels of a folder."""
    results = folder.load(run_folders.write(out, Folder(seeds=(0,), flows=0, **what)))
    figures: list[Figure] = []

    def keep(figure: Figure, *_: str) -> look.Picture:
        figure.canvas.draw()
        figures.append(figure)
        return look.Picture("", "")

    monkeypatch.setattr(plots, "picture", keep)
    iterations = {job.name: compare.pooled_iterations(results, job) for job in results.plan.jobs}
    summary = summarise(results, resamples=20)
    plots.iteration_times(iterations, summary, results.plan, look.looks(results.plan))
    return [figure.axes[0] for figure in figures]


def ticks(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize("factor", [1.7, 40.0])
def test_iteration_panels_of_all_jobs_have_one_axis(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = {"fifo": Effect(training=1.1, jobs={"slow": factor}), "strict-priority": Effect()}
    quick, slow = drawn(
        tmp_path / "out", monkeypatch, jobs=("quick", "slow"), effects=slower,
        duration_ns=30 * run_folders.SECOND,
    )  # fmt: skip
    assert quick.get_xlim() == slow.get_xlim()
    assert quick.get_xlabel() == slow.get_xlabel()
    assert ("log axis" in quick.get_xlabel()) == (factor > plots.WIDE)
    assert ticks(quick) == ticks(slow)


def test_noise_does_not_fill_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = drawn(tmp_path / "out", monkeypatch, effects={"fifo": Effect()}, noise=0.0)
    low, high = axes.get_xlim()
    assert high - low >= 0.04 * high
    assert axes.xaxis.get_major_formatter().get_offset() == ""


def test_a_long_name_beside_an_axis_is_whole() -> None:
    assert plots.in_lines("Priority with guaranteed shares").split() == [
        "Priority", "with", "guaranteed", "shares",
    ]  # fmt: skip
    assert plots.in_lines("x" * 40).replace("\n", "") == "x" * 40
