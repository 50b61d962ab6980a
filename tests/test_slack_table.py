"""The tables of docs/slack-aware.md: cells by one axis or two; no column for what was not run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import slack_table
from testbed.spec import sweep_file
from tests.conftest import REPOSITORY

KERNEL = REPOSITORY / "experiments" / "slack-aware-kernel.yaml"
GRID = REPOSITORY / "experiments" / "slack-aware.yaml"


def settings_at(file: Path) -> dict[tuple[str, str], tuple[object, object]]:
    """Compute and load of every cell of a sweep, by the names that the table gives it."""
    cells = {}
    for point in sweep_file.load(file).points:
        place = slack_table.place_of(SimpleNamespace(**dict(point.at)))
        job, mix = point.experiment.training[0], point.experiment.flows[0]
        cells[place] = (job, mix)
    return cells


def test_a_cell_has_the_same_name_and_settings_on_a_kernel_as_in_simulation() -> None:
    grid, kernel = settings_at(GRID), settings_at(KERNEL)
    assert len(grid) == 16
    assert len(kernel) == 8
    assert all(grid[place] == settings for place, settings in kernel.items())


def test_a_policy_that_some_cell_lacks_has_no_column() -> None:
    row = SimpleNamespace()
    cells = {
        ("16", "23"): {("fq-codel", "iteration"): row, ("first-bytes", "iteration"): row},
        ("2", "184"): {("first-bytes", "iteration"): row},
    }
    assert slack_table.run(cells, slack_table.COLUMNS) == ["first-bytes"]


@pytest.mark.parametrize(("engine", "cells"), [("fluid", 16), ("virtual", 8)])
def test_the_picture_has_every_policy_and_every_cell_of_the_table(engine: str, cells: int) -> None:
    found = slack_table.on_page(slack_table.PAGE.read_text(), engine)
    assert set(found) <= set(slack_table.COLUMNS)
    assert {len(points) for points in found.values()} == {cells}
    [axes] = slack_table.pareto(found, engine).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(found)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for iteration, small, *_ in (point for points in found.values() for point in points):
        assert left <= iteration <= right
        assert low <= 100 + small <= high


def test_the_short_table_is_that_of_the_cells() -> None:
    page = slack_table.PAGE.read_text()
    shown = slack_table.block(page, "fluid short").splitlines()
    assert shown == list(slack_table.short(page, "fluid"))
    assert [line.split("|")[-2].strip() for line in shown[-3:]] != [""] * 3
