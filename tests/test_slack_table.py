"""The tables of docs/slack-aware.md: cells by one axis or two; no column for what was not run."""

from pathlib import Path
from types import SimpleNamespace

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
